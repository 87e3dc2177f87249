/* The table of the plug-in: what C wants as C. The rest is in null.go. */
#include "taillight_driver.h"

extern int32_t nullSubmit(void *, tl_op *, uint32_t, tl_done *, uint32_t *);

#ifdef KEYED /* records in place of blocks: CGO_CFLAGS="-O2 -DKEYED" go build ... */
#define WORK "\"kind\": \"keyed\", \"ops\": [\"get\", \"insert\", \"update\", \"delete\"],"
#else
#define WORK "\"kind\": \"file\", \"ops\": [\"read\", \"write\", \"trim\", \"fsync\"],"
#endif

static tl_text describe(void) {
  static const char text[] = "{\"name\": \"null-go\", \"about\": \"does nothing, in Go\"," WORK
                             " \"max_depth\": 32, \"stores_data\": false}";
  return (tl_text){text, sizeof text - 1};
}
static int open_target(tl_text plan, tl_target **out, tl_shape *shape, char *error, size_t len) {
  (void)plan, (void)error, (void)len;
  if (shape->file_size == 0) shape->file_size = 1ull << 30;
  *out = (tl_target *)"target";
  return 0;
}
static void close_target(tl_target *target) { (void)target; }
static int session(tl_target *t, const tl_session_spec *spec, tl_session **out, char *error, size_t len) {
  (void)t, (void)spec, (void)error, (void)len;
  *out = (tl_session *)"session";
  return 0;
}
static void close_session(tl_session *s) { (void)s; }
static int32_t submit(tl_session *s, const tl_op *ops, uint32_t n, tl_done *done, uint32_t *ended) {
  return nullSubmit(s, (tl_op *)ops, n, done, ended);
}

static const tl_driver DRIVER = {
    .size = sizeof(tl_driver), .abi = TAILLIGHT_ABI, .describe = describe, .open = open_target, .close = close_target,
    .session = session, .close_session = close_session, .submit = submit,
};
const tl_driver *taillight_driver_v1(uint32_t host_abi) { return host_abi >= TAILLIGHT_ABI ? &DRIVER : (void *)0; }
