/* Plug-ins with one fault each, chosen by -DFAULT=...: what the host has to name. */
#include "taillight_driver.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { NONE, NOT_JSON, NO_TABLE, OTHER_ABI, TOO_SHORT, NO_SUBMIT, TWICE, NEVER, CRASH, KEEPS_NOTHING, SHORT, LONG, NOOP, EXITS,
       ABORTS, BYTES, OTHER_TAG, NO_POLL, FULL, EXITS_IN_OPEN, HANGS_IN_OPEN, SIGNALS, BOTH, ELSEWHERE };

struct tl_target { int unused; };
struct tl_session { uint64_t tokens[64]; uint32_t n; };

#define WORDS "{\"name\": \"faulty\", \"kind\": \"file\", \"ops\": [\"read\", \"write\"], \"max_depth\": 32, \"stores_data\": "
static tl_text describe(void) {
  static const char quiet[] = WORDS "false}", keeps[] = WORDS "true}", broken[] = WORDS "perhaps";
  if (FAULT == NOT_JSON) return (tl_text){broken, sizeof broken - 1};
  if (FAULT == KEEPS_NOTHING || FAULT == ELSEWHERE) return (tl_text){keeps, sizeof keeps - 1};
  return (tl_text){quiet, sizeof quiet - 1};
}
static int open_target(tl_text p, tl_target **t, tl_shape *s, char *e, size_t n) {
  (void)p, (void)e, (void)n;
  if (FAULT == EXITS_IN_OPEN) exit(0);
  if (FAULT == HANGS_IN_OPEN)
    for (fclose(fopen("hangs", "w"));;) sleep(1000);
  if (FAULT == SIGNALS) signal(SIGINT, SIG_IGN), signal(SIGTERM, SIG_IGN);
  if (!s->file_size) s->file_size = 1 << 20;
  return (*t = calloc(1, sizeof **t)) ? 0 : -1;
}
static void close_target(tl_target *t) { free(t); }
static int session(tl_target *t, const tl_session_spec *p, tl_session **s, char *e, size_t n) {
  (void)t, (void)p, (void)e, (void)n;
  return (*s = calloc(1, sizeof **s)) ? 0 : -1;
}
static void close_session(tl_session *s) { free(s); }
static int32_t submit(tl_session *s, const tl_op *ops, uint32_t n, tl_done *done, uint32_t *ended) {
  static unsigned all;
  if (FAULT == FULL && ops[0].kind != TL_NOOP) return 0;
  for (uint32_t i = 0; i < n; i++) {
    int real = ops[i].kind != TL_NOOP, late = real && ++all > 200; /* records of others are there before */
    if (FAULT == CRASH && late) *(volatile int *)(uintptr_t)(ops[i].slot * 0) = 1;
    if (FAULT == EXITS && late) exit(0);
    if ((FAULT == ABORTS && late) || (FAULT == ELSEWHERE && real)) abort();
    if (FAULT == NO_POLL && late) continue;
    if (FAULT == NOOP && !real) done[i] = (tl_done){.token = ops[i].token, .status = 95};
    else if ((FAULT == TWICE || FAULT == NEVER) && real) { s->tokens[s->n++ % 64] = ops[i].token; continue; }
    else done[*ended] = (tl_done){.token = ops[i].token + (FAULT == OTHER_TAG && late), .moved = ops[i].size + (FAULT == BYTES && late)};
    ++*ended;
    if (FAULT == BOTH && late && i + 1 == n) done[*ended] = done[*ended - 1], ++*ended; /* twice, at once */
  }
  return (int32_t)n;
}
static int32_t poll_session(tl_session *s, tl_done *done, uint32_t room, uint32_t min, uint64_t until) {
  (void)min, (void)until;
  if (FAULT == NEVER || room == 0 || s->n == 0) return 0;
  done[0] = (tl_done){.token = s->tokens[0], .moved = 4096}; /* the first one, for ever */
  return 1;
}
static int empty(tl_target *t, uint32_t action, char *e, size_t n) {
  (void)t, (void)e, (void)n;
  return action == TL_EMPTY;
}
static struct { tl_driver v1; void (*newer[4])(void); } D = {
    {.size = FAULT == TOO_SHORT ? 40 : FAULT == SHORT ? offsetof(tl_driver, admin) : FAULT == LONG ? sizeof D : sizeof D.v1,
     .abi = FAULT == OTHER_ABI ? 7 : TAILLIGHT_ABI, .describe = describe, .open = open_target, .close = close_target,
     .session = session, .close_session = close_session, .submit = FAULT == NO_SUBMIT ? NULL : submit,
     .poll = FAULT == NO_POLL ? NULL : poll_session, .admin = FAULT == KEEPS_NOTHING ? empty : NULL}, {NULL}};
const tl_driver *taillight_driver_v1(uint32_t host_abi) { (void)host_abi; return FAULT == NO_TABLE ? NULL : &D.v1; }
