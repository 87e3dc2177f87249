/* A driver that does nothing: the smallest plug-in, and what the bridge to one costs.
 *
 *   cc -O2 -shared -fPIC -I sdk -o null.so sdk/examples/c/null.c
 *   taillight drivers --check ./null.so
 *   taillight run --driver plugin --set target.options.library=./null.so --ops 1000000
 *
 * At depth 1 an operation ends inside submit. Deeper ones wait for poll, as they would in a real queue. Made with
 * -DKEYED it has records in place of blocks. */
#include "taillight_driver.h"

#include <stdlib.h>
#include <string.h>

#define DEEPEST 4096

struct tl_target {
  int unused;
};

/* What an end says. */
typedef struct {
  uint64_t token, moved;
} waiting;

struct tl_session {
  uint32_t depth;
  uint32_t queued;
  waiting ops[DEEPEST];
};

#ifdef KEYED
#define WORK "\"kind\": \"keyed\", \"ops\": [\"get\", \"insert\", \"update\", \"delete\"],"
#else
#define WORK "\"kind\": \"file\", \"ops\": [\"read\", \"write\", \"trim\", \"fsync\"],"
#endif

static tl_text describe(void) {
  static const char text[] =
      "{\"name\": \"null-c\", \"about\": \"does nothing, in C\", \"version\": \"1\"," WORK
      " \"max_depth\": 4096, \"stores_data\": false,"
      " \"admin\": [\"flush\", \"compact\", \"drop_caches\"]}";
  return (tl_text){text, sizeof text - 1};
}

static int open_target(tl_text plan, tl_target **out, tl_shape *shape, char *error, size_t len) {
  (void)plan, (void)error, (void)len;
  if (shape->file_size == 0) shape->file_size = 1ull << 30;
  *out = calloc(1, sizeof **out);
  return *out ? 0 : -1;
}

static void close_target(tl_target *target) { free(target); }

static int session(tl_target *target, const tl_session_spec *spec, tl_session **out, char *error,
                   size_t len) {
  (void)target, (void)error, (void)len;
  *out = calloc(1, sizeof **out);
  if (!*out) return -1;
  (*out)->depth = spec->depth;
  return 0;
}

static void close_session(tl_session *s) { free(s); }

/* A no-op is an operation like any other here. */
static void end_of(uint64_t token, uint64_t moved, tl_done *done) {
  /* Field by field: a struct made elsewhere and copied costs more than all the rest of the bridge. */
  memset(done, 0, sizeof *done);
  done->token = token;
  done->moved = moved;
}

static int32_t submit(tl_session *s, const tl_op *ops, uint32_t n, tl_done *done, uint32_t *ended) {
  if (s->depth == 1) {
    for (uint32_t i = 0; i < n; i++) end_of(ops[i].token, ops[i].size, &done[i]);
    *ended = n;
    return (int32_t)n;
  }
  for (uint32_t i = 0; i < n; i++) {
    waiting *op = &s->ops[s->queued++];
    op->token = ops[i].token;
    op->moved = ops[i].size;
  }
  return (int32_t)n;
}

static int32_t poll_session(tl_session *s, tl_done *done, uint32_t room, uint32_t min,
                            uint64_t until_ns) {
  (void)min, (void)until_ns;
  uint32_t n = s->queued < room ? s->queued : room;
  for (uint32_t i = 0; i < n; i++) end_of(s->ops[i].token, s->ops[i].moved, &done[i]);
  for (uint32_t i = n; i < s->queued; i++) s->ops[i - n] = s->ops[i];
  s->queued -= n;
  return (int32_t)n;
}

static int admin(tl_target *target, uint32_t action, char *error, size_t len) {
  (void)target, (void)error, (void)len;
  return action == TL_EMPTY ? 1 : 0;
}

static const tl_driver DRIVER = {
    .size = sizeof(tl_driver),
    .abi = TAILLIGHT_ABI,
    .describe = describe,
    .open = open_target,
    .close = close_target,
    .session = session,
    .close_session = close_session,
    .submit = submit,
    .poll = poll_session,
    .admin = admin,
};

const tl_driver *taillight_driver_v1(uint32_t host_abi) {
  return host_abi >= TAILLIGHT_ABI ? &DRIVER : NULL;
}
