/* A store in memory, as a program for `driver = "process"`:
 *
 *   cc -O2 -pthread -I sdk -o dict sdk/examples/dict.c
 *   taillight drivers --check ./dict
 *   taillight run --driver process --set target.options.command=./dict --set workload.0.keys.count=1000 --ops 100000 */
#include "taillight_process.h"

#define BUCKETS 65536

typedef struct record {
  struct record *next;
  uint32_t key_len;
  uint64_t len;
  char bytes[]; /* key, then value */
} record;

static record *buckets[BUCKETS];
static uint64_t count;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

/* Where the record of a key is, or would be. */
static record **find(const char *key, uint32_t len) {
  uint64_t hash = 14695981039346656037u;
  for (uint32_t i = 0; i < len; i++) hash = (hash ^ (unsigned char)key[i]) * 1099511628211u;
  record **at = &buckets[(hash ^ hash >> 32) % BUCKETS];
  while (*at && ((*at)->key_len != len || memcmp((*at)->bytes, key, len) != 0)) at = &(*at)->next;
  return at;
}

static int32_t run(const tl_op *op, char *memory, uint64_t slot_size, tl_done *done) {
  char *key = memory + op->key_at, *value = memory + op->value_at;
  int32_t status = TL_OK;
  if (op->kind == TL_GET) pthread_rwlock_rdlock(&lock);
  else pthread_rwlock_wrlock(&lock);
  record **at = find(key, op->key_len), *old = *at, *new;
  if (!old && (op->kind == TL_GET || op->kind == TL_UPDATE || op->kind == TL_DELETE)) {
    status = TL_NOT_FOUND;
  } else if (op->kind == TL_GET) {
    memcpy(value, old->bytes + old->key_len, old->len < slot_size ? old->len : slot_size);
    done->moved = old->len;
  } else if (op->kind == TL_DELETE) {
    *at = old->next, count--, free(old);
  } else if (!(new = malloc(sizeof *new + op->key_len + op->size))) {
    status = 12; /* ENOMEM */
  } else {
    *new = (record){old ? old->next : NULL, op->key_len, op->size};
    memcpy(new->bytes, key, op->key_len);
    memcpy(new->bytes + op->key_len, value, op->size);
    *at = new, count += !old, free(old);
    done->moved = op->size;
  }
  pthread_rwlock_unlock(&lock);
  return status;
}

static int empty(void) { return count == 0; }

int main(void) {
  return taillight_serve_store(&(tl_store){
      .describe = "{\"name\": \"dict-c\", \"about\": \"records in memory, in C\", \"version\": \"1\", \"kind\": \"keyed\","
                  " \"ops\": [\"get\", \"put\", \"insert\", \"update\", \"delete\"], \"max_depth\": 64}",
      .run = run, .empty = empty});
}
