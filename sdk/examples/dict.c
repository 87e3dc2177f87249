/* A store in memory, as a program for `driver = "process"`:
 *
 *   cc -O2 -pthread -I sdk -o dict sdk/examples/dict.c
 *   taillight drivers --check ./dict
 *   taillight run --driver process --set target.options.command=./dict --set workload.0.keys.count=1000 --ops 100000 */
#include "taillight_process.h"
#include <search.h>

/* `bytes` are the key, then the value. */
typedef struct { const char *key; uint64_t key_len, len; char bytes[]; } record;

static void *records; /* a tree, of tsearch(3) */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static int order(const void *a, const void *b) {
  const record *x = a, *y = b;
  return x->key_len == y->key_len ? memcmp(x->key, y->key, x->key_len) : x->key_len < y->key_len ? -1 : 1;
}

static int32_t run(const tl_op *op, char *memory, uint64_t slot_size, tl_done *done) {
  char *value = memory + op->value_at;
  record asked = {memory + op->key_at, op->key_len, 0}, *new = NULL;
  int puts = op->kind == TL_PUT || op->kind == TL_INSERT || op->kind == TL_UPDATE;
  if (puts && !(new = malloc(sizeof *new + op->key_len + op->size))) return 12; /* ENOMEM */
  op->kind == TL_GET ? pthread_rwlock_rdlock(&lock) : pthread_rwlock_wrlock(&lock);
  record **at = tfind(&asked, &records, order), *old = at ? *at : NULL;
  int32_t status = old || op->kind == TL_PUT || op->kind == TL_INSERT ? TL_OK : TL_NOT_FOUND;
  if (status == TL_OK && puts) {
    *new = (record){new->bytes, op->key_len, done->moved = op->size};
    memcpy(new->bytes, asked.key, op->key_len), memcpy(new->bytes + op->key_len, value, op->size);
    if (at) *at = new;
    else if (!tsearch(new, &records, order)) old = new, status = 12;
  } else if (status == TL_OK && op->kind == TL_GET) {
    memcpy(value, old->bytes + old->key_len, old->len < slot_size ? old->len : slot_size);
    done->moved = old->len;
  } else if (status == TL_OK) {
    tdelete(&asked, &records, order);
  }
  if (op->kind != TL_GET) free(status == TL_NOT_FOUND ? new : old);
  pthread_rwlock_unlock(&lock);
  return status;
}

static int empty(void) { return records == NULL; }

int main(void) {
  return taillight_serve_store(&(tl_store){
      .describe = "{\"name\": \"dict-c\", \"about\": \"records in memory, in C\", \"version\": \"1\", \"kind\": \"keyed\","
                  " \"ops\": [\"get\", \"put\", \"insert\", \"update\", \"delete\"], \"max_depth\": 64}",
      .run = run, .empty = empty});
}
