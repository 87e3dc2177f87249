/* A store in one file: records are appended, an index of their places is kept in memory in key order. It is here to
 * show every operation of a keyed plug-in, and is no database: nothing is compacted, a write locks all others out.
 *
 *   cc -O2 -shared -fPIC -pthread -I sdk -o records.so sdk/examples/c/records.c
 *   taillight drivers --check ./records.so
 *   taillight run --driver plugin --path ./my.records --set target.options.library=./records.so ...
 */
#define _GNU_SOURCE
#include "taillight_driver.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define LEVELS 16
#define MAGIC "taillight-example-records-1\n"
#define GONE 0xffffffffu /* length of the value of a record that was deleted */

typedef struct node {
  uint64_t at; /* of the value in the file */
  uint32_t len, key_len;
  struct node *next[LEVELS]; /* as many as it is high, then its key */
} node;

typedef struct {
  uint32_t mark, key_len, len; /* then key, then value */
} header;

struct tl_target {
  pthread_rwlock_t lock;
  node *lists[2]; /* records; the host's mark, which no scan meets */
  uint64_t end, count, random;
  int fd, durable;
  char path[4096];
};

struct tl_session {
  tl_target *target;
  char *memory;
  uint64_t slot_size;
  char *value; /* a value while one of its fields is replaced */
};

static char *key_of(node *n, int height) { return (char *)&n->next[height]; }

/* The height of a node stands in front of its pointers: its key does behind them. */
typedef struct {
  int height;
  node n;
} tall;
static int height(node *n) { return ((tall *)((char *)n - offsetof(tall, n)))->height; }

static node *new_node(int high, const void *key, uint32_t key_len) {
  tall *t = calloc(1, sizeof *t + key_len);
  if (!t) return NULL;
  t->height = high;
  t->n.key_len = key_len;
  memcpy(key_of(&t->n, high), key, key_len);
  return &t->n;
}

static void free_node(node *n) { free((char *)n - offsetof(tall, n)); }

static int compare(node *n, const void *key, uint32_t len) {
  int c = memcmp(key_of(n, height(n)), key, n->key_len < len ? n->key_len : len);
  return c ? c : (n->key_len > len) - (n->key_len < len);
}

/* The last node below the key, or the head; at every level in before. */
static node *below(node *head, const void *key, uint32_t len, node **before) {
  node *n = head;
  for (int level = LEVELS - 1; level >= 0; level--) {
    while (n->next[level] && compare(n->next[level], key, len) < 0) n = n->next[level];
    if (before) before[level] = n;
  }
  return n;
}

static node *find(node *head, const void *key, uint32_t len) {
  node *n = below(head, key, len, NULL)->next[0];
  return n && compare(n, key, len) == 0 ? n : NULL;
}

/* The node of a key, made where there is none; NULL without memory. */
static node *place(tl_target *t, node *head, const void *key, uint32_t len) {
  node *before[LEVELS];
  node *n = below(head, key, len, before)->next[0];
  if (n && compare(n, key, len) == 0) return n;
  t->random = t->random * 6364136223846793005u + 1442695040888963407u;
  int high = 1 + __builtin_ctzll((t->random >> 33) | (1u << (LEVELS - 1)));
  if (high > LEVELS) high = LEVELS;
  if (!(n = new_node(high, key, len))) return NULL;
  for (int level = 0; level < high; level++) {
    n->next[level] = before[level]->next[level];
    before[level]->next[level] = n;
  }
  t->count++;
  return n;
}

static int unplace(tl_target *t, node *head, const void *key, uint32_t len) {
  node *before[LEVELS];
  node *n = below(head, key, len, before)->next[0];
  if (!n || compare(n, key, len) != 0) return 0;
  for (int level = 0; level < height(n); level++) before[level]->next[level] = n->next[level];
  t->count--;
  free_node(n);
  return 1;
}

/* Appends a record and puts it into the index; called with the lock held. */
static int append(tl_target *t, int mark, const char *key, uint32_t key_len, const char *value, uint32_t len) {
  header h = {(uint32_t)mark, key_len, len};
  uint32_t bytes = len == GONE ? 0 : len;
  uint64_t at = t->end;
  struct iovec parts[3] = {{&h, sizeof h}, {(void *)key, key_len}, {(void *)value, bytes}};
  ssize_t all = sizeof h + key_len + bytes, written = pwritev(t->fd, parts, 3, (off_t)at);
  if (written != all) return written < 0 ? errno : EIO;
  t->end = at + (uint64_t)all;
  if (len == GONE) {
    unplace(t, t->lists[mark], key, key_len);
    return 0;
  }
  node *n = place(t, t->lists[mark], key, key_len);
  if (!n) return ENOMEM;
  n->at = at + sizeof h + key_len;
  n->len = len;
  return 0;
}

/* A value into out, as much as fits. */
static int read_value(tl_target *t, node *n, char *out, uint64_t room) {
  uint64_t want = n->len < room ? n->len : room;
  return pread(t->fd, out, want, n->at) == (ssize_t)want ? 0 : EIO;
}

static uint32_t big_endian(const char *at) {
  const unsigned char *b = (const unsigned char *)at;
  return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* Bytes of the entry at the front of value, name and data behind a length each; 0 when it is none. */
static uint64_t entry(const char *value, uint64_t len, uint64_t *name_len) {
  if (len < 4 || (*name_len = big_endian(value)) > len - 4) return 0;
  uint64_t at = 4 + *name_len;
  if (len - at < 4 || big_endian(value + at) > len - at - 4) return 0;
  return at + 4 + big_endian(value + at);
}

/* Replaces a field of a stored value by one of the same size; TL_STORE where that is not there. */
static int update_field(tl_session *s, const tl_op *op, node *n) {
  const char *new = s->memory + op->value_at, *key = s->memory + op->key_at;
  uint64_t name, size, other, bytes = entry(new, op->size, &name);
  if (!bytes || n->len > s->slot_size || read_value(s->target, n, s->value, n->len)) return TL_STORE;
  for (uint64_t at = 0; (size = entry(s->value + at, n->len - at, &other)); at += size) {
    if (other != name || memcmp(s->value + at + 4, new + 4, name) != 0) continue;
    if (size != bytes) return TL_STORE;
    memcpy(s->value + at, new, bytes);
    return append(s->target, 0, key, op->key_len, s->value, n->len);
  }
  return TL_STORE;
}

static int write_op(tl_session *s, const tl_op *op, tl_done *done) {
  tl_target *t = s->target;
  int mark = (op->flags & TL_MARK) != 0, status = 0;
  const char *key = s->memory + op->key_at, *value = s->memory + op->value_at;
  pthread_rwlock_wrlock(&t->lock);
  node *there = op->count == 1 && op->kind >= TL_UPDATE ? find(t->lists[mark], key, op->key_len) : NULL;
  if (op->count == 1 && op->kind >= TL_UPDATE && !there) {
    status = TL_NOT_FOUND;
  } else if (op->kind == TL_DELETE) {
    status = append(t, mark, key, op->key_len, "", GONE);
  } else if (op->kind == TL_UPDATE && op->field != TL_ALL_FIELDS) {
    status = update_field(s, op, there);
  } else if (op->count == 1) {
    status = append(t, mark, key, op->key_len, value, (uint32_t)op->size);
  }
  for (uint32_t i = 0; op->count > 1 && i < op->count && !status; i++) {
    uint32_t len;
    memcpy(&len, key, sizeof len);
    status = append(t, mark, key + sizeof len, len, value + i * op->size, (uint32_t)op->size);
    key += sizeof len + len;
  }
  pthread_rwlock_unlock(&t->lock);
  if (!status && (op->sync || t->durable)) status = fdatasync(t->fd) ? errno : 0;
  if (!status && op->kind != TL_DELETE) done->moved = op->size * op->count;
  if (!status && op->count > 1) done->count = op->count;
  return status;
}

/* One record, or those of a batch, which stay where the store has them. */
static int get(tl_session *s, const tl_op *op, tl_done *done) {
  tl_target *t = s->target;
  node *head = t->lists[(op->flags & TL_MARK) != 0];
  const char *key = s->memory + op->key_at;
  if (op->count == 1) {
    node *n = find(head, key, op->key_len);
    if (!n) return TL_NOT_FOUND;
    done->moved = n->len;
    return read_value(t, n, s->memory + op->value_at, s->slot_size < n->len ? s->slot_size : n->len);
  }
  for (uint32_t i = 0; i < op->count; i++) {
    uint32_t len;
    memcpy(&len, key, sizeof len);
    node *n = find(head, key + sizeof len, len);
    if (n && read_value(t, n, s->value, s->slot_size)) return EIO;
    if (n) done->moved += n->len, done->count++;
    key += sizeof len + len;
  }
  return done->count == op->count ? 0 : TL_NOT_FOUND;
}

static int scan(tl_session *s, const tl_op *op, tl_done *done) {
  node *head = s->target->lists[0];
  const char *key = s->memory + op->key_at;
  int back = op->flags & TL_REVERSE;
  node *n = find(head, key, op->key_len);
  if (!n) n = back ? below(head, key, op->key_len, NULL) : below(head, key, op->key_len, NULL)->next[0];
  while (n && n != head && done->count < op->count) {
    uint64_t at = done->moved < s->slot_size ? done->moved : s->slot_size;
    if (read_value(s->target, n, s->memory + op->value_at + at, s->slot_size - at)) return EIO;
    done->moved += n->len;
    done->count++;
    n = back ? below(head, key_of(n, height(n)), n->key_len, NULL) : n->next[0];
  }
  return 0;
}

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Every operation ends here, so that there is no poll. */
static int32_t submit(tl_session *s, const tl_op *ops, uint32_t n, tl_done *done, uint32_t *ended) {
  for (uint32_t i = 0; i < n; i++) {
    const tl_op *op = &ops[i];
    done[i] = (tl_done){.token = op->token};
    if (op->kind == TL_NOOP) continue;
    done[i].start_ns = now();
    if (op->kind == TL_GET || op->kind == TL_SCAN) {
      pthread_rwlock_rdlock(&s->target->lock);
      done[i].status = op->kind == TL_GET ? get(s, op, &done[i]) : scan(s, op, &done[i]);
      pthread_rwlock_unlock(&s->target->lock);
    } else {
      done[i].status = write_op(s, op, &done[i]);
    }
    done[i].end_ns = now();
  }
  *ended = n;
  return (int32_t)n;
}

static tl_text describe(void) {
  static const char text[] =
      "{\"name\": \"records-c\", \"about\": \"records in one file, in C\", \"version\": \"1\", \"kind\": \"keyed\","
      " \"ops\": [\"get\", \"put\", \"insert\", \"update\", \"delete\", \"scan\"], \"sync\": true, \"fields\": true,"
      " \"batches\": [\"get\", \"put\", \"insert\", \"update\"], \"admin\": [\"flush\", \"drop_caches\"],"
      " \"options\": [{\"name\": \"durable\", \"default\": false, \"values\": \"bool\","
      " \"about\": \"Every write is durable before it ends.\"}]}";
  return (tl_text){text, sizeof text - 1};
}

static int fail(char *error, size_t len, const char *what, const char *path) {
  snprintf(error, len, "%s: %s%s%s", what, path, errno ? ": " : "", errno ? strerror(errno) : "");
  return -1;
}

/* The text behind "name": in JSON that the host wrote; a path with escapes in it is not understood here. */
static int json_text(tl_text json, const char *name, char *out, size_t room) {
  char *copy = strndup(json.at, json.len), *at = copy ? strstr(copy, name) : NULL;
  int found = at && sscanf(at + strlen(name), "\"%4095[^\"]\"", out) == 1 && !strchr(out, '\\');
  free(copy);
  return found && room >= 4096;
}

static int json_true(tl_text json, const char *word) {
  char *copy = strndup(json.at, json.len);
  int found = copy && strstr(copy, word);
  free(copy);
  return found;
}

/* Reads the file into the index; what is cut off at its end was never acknowledged. */
static int load(tl_target *t) {
  header h;
  char key[4096];
  for (;;) {
    if (pread(t->fd, &h, sizeof h, t->end) != sizeof h || h.mark > 1 || h.key_len > sizeof key) return 0;
    uint64_t at = t->end + sizeof h + h.key_len;
    if (pread(t->fd, key, h.key_len, t->end + sizeof h) != h.key_len) return 0;
    if (h.len == GONE) {
      unplace(t, t->lists[h.mark], key, h.key_len);
    } else {
      if ((uint64_t)lseek(t->fd, 0, SEEK_END) < at + h.len) return 0;
      node *n = place(t, t->lists[h.mark], key, h.key_len);
      if (!n) return -1;
      n->at = at, n->len = h.len;
    }
    t->end = at + (h.len == GONE ? 0 : h.len);
  }
}

static void close_target(tl_target *t) {
  for (int i = 0; i < 2; i++) {
    for (node *n = t->lists[i], *next; n; n = next) {
      next = n->next[0];
      free_node(n);
    }
  }
  if (t->fd >= 0 && t->count == 0 && t->end > 0) unlink(t->path); /* nothing is in it */
  if (t->fd >= 0) close(t->fd);
  free(t);
}

static int open_target(tl_text plan, tl_target **out, tl_shape *shape, char *error, size_t len) {
  (void)shape;
  char magic[sizeof MAGIC] = "";
  tl_target *t = calloc(1, sizeof *t);
  if (!t || !(t->lists[0] = new_node(LEVELS, "", 0)) || !(t->lists[1] = new_node(LEVELS, "", 0))) return -1;
  t->fd = -1;
  pthread_rwlock_init(&t->lock, NULL);
  t->durable = json_true(plan, "\"durable\":true");
  errno = 0;
  int bad = 0;
  if (!json_text(plan, "\"path\":", t->path, sizeof t->path)) {
    bad = fail(error, len, "it needs target.path, the file of the records", "");
  } else if ((t->fd = open(t->path, O_RDWR | O_CREAT | O_CLOEXEC, 0644)) < 0) {
    bad = fail(error, len, "cannot open", t->path);
  } else if (lseek(t->fd, 0, SEEK_END) == 0) {
    if (pwrite(t->fd, MAGIC, strlen(MAGIC), 0) < 0) bad = fail(error, len, "cannot write", t->path);
  } else if (pread(t->fd, magic, strlen(MAGIC), 0) < 0 || strcmp(magic, MAGIC) != 0) {
    bad = fail(error, len, "no file of this plug-in", t->path);
  }
  if (!bad) t->end = strlen(MAGIC);
  if (!bad && load(t)) bad = fail(error, len, "not enough memory", t->path);
  if (bad) {
    t->end = 0;
    close_target(t);
    return -1;
  }
  *out = t;
  return 0;
}

static int session(tl_target *t, const tl_session_spec *spec, tl_session **out, char *error, size_t len) {
  (void)error, (void)len;
  tl_session *s = calloc(1, sizeof *s);
  if (!s || !(s->value = malloc(spec->slot_size))) return -1;
  s->target = t, s->memory = spec->memory, s->slot_size = spec->slot_size;
  *out = s;
  return 0;
}

static void close_session(tl_session *s) {
  free(s->value);
  free(s);
}

static int admin(tl_target *t, uint32_t action, char *error, size_t len) {
  if (action == TL_EMPTY) return t->count == 0;
  if (action == TL_FLUSH && fdatasync(t->fd)) return fail(error, len, "cannot sync", t->path);
  if (action == TL_DROP_CACHES && posix_fadvise(t->fd, 0, 0, POSIX_FADV_DONTNEED)) return -1;
  return 0;
}

static void sample(tl_target *t, void (*out)(void *, tl_text, double), void *to) {
  out(to, (tl_text){"file_bytes", 10}, (double)t->end);
}

static const tl_driver DRIVER = {sizeof(tl_driver), TAILLIGHT_ABI, describe, open_target, close_target, session,
                                 close_session,     submit,        NULL,     admin,       sample};

const tl_driver *taillight_driver_v1(uint32_t host_abi) { return host_abi >= TAILLIGHT_ABI ? &DRIVER : NULL; }
