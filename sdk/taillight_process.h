/* Taillight's driver `process` in C: a program that serves operations over rings in shared memory. Header only, Linux.
 *
 *   int main(void) { return taillight_serve(taillight_driver_v1(TAILLIGHT_ABI)); }   any plug-in, as a program
 *   int main(void) { return taillight_serve_store(&(tl_store){...}); }               a store of one function
 *
 * WHAT CROSSES THE BORDER, for who writes an SDK in another language. Taillight starts the program; its standard input
 * is a Unix socket. Each line there is a question in JSON, without blanks, and is answered by one line: an object, with "error" (words)
 * where it failed. Words that are not known are left aside. The questions, by "do":
 *   describe {abi}: {"abi": 1, "describe": {words of tl_driver.describe}, "samples": whether it has statistics}
 *   open {target, file_size, plan}: {"file_size", "align"}, both optional; target is a number, plan as tl_driver.open's
 *   session {target, session, worker, depth, entries, slots_at, slot_size, len}, with the descriptor of a file of len
 *     bytes (SCM_RIGHTS) to be mapped: {}
 *   admin {target, action}: {"answer": 1 or 0}, actions as TL_FLUSH
 *   sample {target}: {"values": {name: number}}
 *   close_session {session}: {}, at once; what is in flight still ends
 *   close {target}: {}, once its sessions have ended
 * When the socket is closed the program ends. A file of a session holds, in native byte order:
 *   0    uint32: operations that the host has written      128  uint32: 1 while the program sleeps for them
 *   256  uint32: ends that the program has written         384  uint32: 1 while the host sleeps for them
 *   132, 388 uint32, optional: the CPU on which the program, the host, woke or woke the other last, plus 1: who
 *        shares it sleeps sooner
 *   4096 ring of tl_op, entries of them (a power of two), then ring of tl_done, as many
 *   slots_at: the memory that key_at and value_at are offsets in; a slot of slot_size bytes for each operation
 * Counts wrap; the place of entry n is n modulo entries. An entry is written before the count that tells of it (release
 * and acquire). Who finds nothing looks some 2,000 times more, then sets its flag of sleep, looks once more and waits on
 * the other's count (FUTEX_WAIT, not private). Who has raised a count looks at the other's flag (sequentially
 * consistent), and where it is set clears it and wakes (FUTEX_WAKE). Never more than depth operations are in flight. */
#ifndef TAILLIGHT_PROCESS_H
#define TAILLIGHT_PROCESS_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "taillight_driver.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { TLP_OP_TAIL = 0, TLP_OP_WAITING = 128, TLP_DONE_TAIL = 256, TLP_DONE_WAITING = 384, TLP_ENTRIES = 4096 };
enum { TLP_OP_CPU = 132, TLP_DONE_CPU = 388 };
enum { TLP_SPINS = 2000, TLP_SHARED = 64, TLP_BATCH = 64 };

typedef struct tlp_target {
  uint32_t number, sessions;
  tl_target *target;
  struct tlp_target *next;
} tlp_target;

typedef struct tlp_ring {
  const tl_driver *driver;
  tlp_target *target;
  tl_session *session;
  char *map;
  uint64_t len;
  uint32_t number, entries, written, closing;
  struct tlp_ring *next;
} tlp_ring;

static inline uint64_t tlp_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void tlp_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static inline uint32_t *tlp_word(tlp_ring *r, int word) { return (uint32_t *)(void *)(r->map + word); }

static inline void tlp_publish(tlp_ring *r, const tl_done *done, uint32_t n) {
  tl_done *ring = (tl_done *)(void *)(r->map + TLP_ENTRIES + (size_t)r->entries * sizeof(tl_op));
  if (n == 0) return;
  for (uint32_t i = 0; i < n; i++) ring[r->written++ & (r->entries - 1)] = done[i];
  __atomic_store_n(tlp_word(r, TLP_DONE_TAIL), r->written, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(tlp_word(r, TLP_DONE_WAITING), __ATOMIC_SEQ_CST)) {
    __atomic_store_n(tlp_word(r, TLP_DONE_WAITING), 0, __ATOMIC_RELAXED);
    __atomic_store_n(tlp_word(r, TLP_OP_CPU), (uint32_t)sched_getcpu() + 1, __ATOMIC_RELAXED);
    syscall(SYS_futex, tlp_word(r, TLP_DONE_TAIL), FUTEX_WAKE, 1, NULL, NULL, 0);
  }
}

/* Sleeps until there is an operation behind head, for a while at most. */
static void tlp_sleep(tlp_ring *r, uint32_t head) {
  struct timespec most = {0, 50000000};
  __atomic_store_n(tlp_word(r, TLP_OP_WAITING), 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(tlp_word(r, TLP_OP_TAIL), __ATOMIC_SEQ_CST) == head)
    syscall(SYS_futex, tlp_word(r, TLP_OP_TAIL), FUTEX_WAIT, head, &most, NULL, 0);
  __atomic_store_n(tlp_word(r, TLP_OP_WAITING), 0, __ATOMIC_RELAXED);
  __atomic_store_n(tlp_word(r, TLP_OP_CPU), (uint32_t)sched_getcpu() + 1, __ATOMIC_RELAXED);
}

static void tlp_lost(const char *what) {
  fprintf(stderr, "taillight driver: a session is lost in %s\n", what);
  _exit(70);
}

/* One session, until it is closed and all of it has ended. */
static void *tlp_run(void *arg) {
  tlp_ring *r = (tlp_ring *)arg;
  const tl_driver *driver = r->driver;
  const tl_op *ring = (const tl_op *)(const void *)(r->map + TLP_ENTRIES);
  tl_done done[TLP_BATCH];
  uint32_t head = 0, in_flight = 0, looks = 0;
  for (;;) {
    uint32_t n = __atomic_load_n(tlp_word(r, TLP_OP_TAIL), __ATOMIC_ACQUIRE) - head, at = head & (r->entries - 1);
    int32_t some = 0;
    if (n > 0) {
      uint32_t ended = 0;
      if (n > r->entries - at) n = r->entries - at;
      if (n > TLP_BATCH) n = TLP_BATCH;
      some = driver->submit(r->session, &ring[at], n, done, &ended);
      if (some < 0) tlp_lost("submit");
      head += (uint32_t)some, in_flight += (uint32_t)some - ended;
      tlp_publish(r, done, ended);
    }
    if (in_flight > 0) {
      uint64_t until = looks < TLP_SPINS ? 0 : tlp_now() + 100000;
      int32_t came = driver->poll(r->session, done, TLP_BATCH, until > 0, until);
      if (came < 0) tlp_lost("poll");
      in_flight -= (uint32_t)came, some += came;
      tlp_publish(r, done, (uint32_t)came);
    }
    if (some > 0) {
      looks = 0;
    } else if (looks < TLP_SPINS) {
      uint32_t other = ++looks == TLP_SHARED ? __atomic_load_n(tlp_word(r, TLP_DONE_CPU), __ATOMIC_RELAXED) : 0;
      if (other > 0 && other == (uint32_t)sched_getcpu() + 1) looks = TLP_SPINS;
      tlp_pause();
    } else if (in_flight == 0) {
      if (__atomic_load_n(&r->closing, __ATOMIC_ACQUIRE)) break;
      tlp_sleep(r, head);
      looks = 0;
    }
  }
  driver->close_session(r->session);
  munmap(r->map, r->len);
  __atomic_fetch_sub(&r->target->sessions, 1, __ATOMIC_RELEASE);
  return NULL;
}

/* Behind the string that begins at s. */
static const char *tlp_string(const char *s) {
  for (s++; *s && *s != '"'; s++)
    if (*s == '\\' && s[1]) s++;
  return *s ? s + 1 : s;
}

/* The value of a member of the object at s, and its length; NULL when it has none of that name. */
static const char *tlp_member(const char *s, const char *name, size_t *len) {
  size_t depth = 0, known = strlen(name);
  while (*s) {
    const char *at = s;
    s = *s == '"' ? tlp_string(s) : s + 1;
    if (*at == '{' || *at == '[') depth++;
    if (*at == '}' || *at == ']') depth--;
    if (*at != '"' || depth != 1 || *s != ':' || (size_t)(s - at) != known + 2 || memcmp(at + 1, name, known)) continue;
    at = ++s;
    for (depth = 0; *s && (depth || (*s != ',' && *s != '}')); s = *s == '"' ? tlp_string(s) : s + 1)
      depth += (size_t)(*s == '{' || *s == '[') - (size_t)(*s == '}' || *s == ']');
    *len = (size_t)(s - at);
    return at;
  }
  return NULL;
}

static uint64_t tlp_number(const char *json, const char *name) {
  size_t len;
  const char *at = tlp_member(json, name, &len);
  return at ? strtoull(at, NULL, 10) : 0;
}

static int tlp_fail(char *out, size_t room, char *words) {
  for (char *c = words; *c; c++)
    if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ') *c = '\'';
  return snprintf(out, room, "{\"error\": \"%s\"}", words);
}

typedef struct {
  char *out;
  size_t at, room;
} tlp_values;

static void tlp_value(void *to, tl_text name, double value) {
  tlp_values *v = (tlp_values *)to;
  int n = snprintf(v->out + v->at, v->room - v->at, "%s\"%.*s\": %.17g", v->at ? ", " : "", (int)name.len, name.at, value);
  if (n > 0 && (size_t)n < v->room - v->at) v->at += (size_t)n;
  v->out[v->at] = 0;
}

#define TLP_HAS(driver, f) ((driver)->size >= offsetof(tl_driver, f) + sizeof((driver)->f) && (driver)->f)

static int tlp_session(const tl_driver *driver, tlp_target *t, tlp_ring **rings, const char *ask, int fd, char *words, size_t room) {
  tl_session_spec spec;
  pthread_t thread;
  uint64_t slots_at = tlp_number(ask, "slots_at");
  tlp_ring *r = (tlp_ring *)calloc(1, sizeof *r);
  if (!r || fd < 0) return -1;
  r->driver = driver, r->target = t, r->len = tlp_number(ask, "len");
  r->number = (uint32_t)tlp_number(ask, "session"), r->entries = (uint32_t)tlp_number(ask, "entries");
  r->map = (char *)mmap(NULL, r->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (r->map == MAP_FAILED) return snprintf(words, room, "cannot map the memory of a session"), -1;
  memset(&spec, 0, sizeof spec);
  spec.size = sizeof spec, spec.worker = (uint32_t)tlp_number(ask, "worker"), spec.depth = (uint32_t)tlp_number(ask, "depth");
  spec.memory = r->map + slots_at, spec.memory_len = r->len - slots_at, spec.slot_size = tlp_number(ask, "slot_size");
  if (driver->session(t->target, &spec, &r->session, words, room) < 0) return munmap(r->map, r->len), free(r), -1;
  __atomic_fetch_add(&t->sessions, 1, __ATOMIC_RELAXED);
  if (pthread_create(&thread, NULL, tlp_run, r)) return snprintf(words, room, "no thread for a session"), -1;
  pthread_detach(thread);
  r->next = *rings, *rings = r;
  return 0;
}

/* Answers one question. */
static void tlp_answer(const tl_driver *driver, const char *ask, int fd, char *out, size_t room) {
  static tlp_target *targets;
  static tlp_ring *rings;
  char words[513] = "";
  size_t len;
  int code = 0;
  const char *what = tlp_member(ask, "do", &len);
  uint32_t number = (uint32_t)tlp_number(ask, "target");
  tlp_target *t = targets;
#define TLP_IS(word) (len == sizeof word + 1 && !memcmp(what + 1, word, sizeof word - 1))
  while (t && t->number != number) t = t->next;
  snprintf(out, room, "{}");
  if (!what) {
    code = -1;
  } else if (TLP_IS("describe")) {
    tl_text text = driver->describe();
    snprintf(out, room, "{\"abi\": %u, \"samples\": %s, \"describe\": %.*s}", TAILLIGHT_ABI,
             TLP_HAS(driver, sample) ? "true" : "false", (int)text.len, text.at);
  } else if (TLP_IS("open")) {
    tl_shape shape = {sizeof shape, 1, tlp_number(ask, "file_size")};
    tl_text plan;
    plan.at = tlp_member(ask, "plan", &plan.len);
    t = (tlp_target *)calloc(1, sizeof *t);
    code = t && plan.at ? driver->open(plan, &t->target, &shape, words, sizeof words - 1) : -1;
    if (code >= 0) t->number = number, t->next = targets, targets = t;
    snprintf(out, room, "{\"file_size\": %llu, \"align\": %u}", (unsigned long long)shape.file_size, shape.align);
  } else if (TLP_IS("close_session")) {
    tlp_ring **at = &rings, *r;
    while (*at && (*at)->number != (uint32_t)tlp_number(ask, "session")) at = &(*at)->next;
    if ((r = *at)) {
      uint32_t *tail = tlp_word(r, TLP_OP_TAIL);
      *at = r->next;
      __atomic_store_n(&r->closing, 1, __ATOMIC_RELEASE);
      syscall(SYS_futex, tail, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
  } else if (!t) {
    code = snprintf(words, sizeof words, "not known here"), code = -1;
  } else if (TLP_IS("session")) {
    code = tlp_session(driver, t, &rings, ask, fd, words, sizeof words - 1);
  } else if (TLP_IS("admin")) {
    code = TLP_HAS(driver, admin) ? driver->admin(t->target, (uint32_t)tlp_number(ask, "action"), words, sizeof words - 1) : 0;
    if (code >= 0) snprintf(out, room, "{\"answer\": %d}", code);
  } else if (TLP_IS("sample")) {
    int n = snprintf(out, room, "{\"values\": {");
    tlp_values values = {out + n, 0, room - (size_t)n - 3};
    if (TLP_HAS(driver, sample)) driver->sample(t->target, tlp_value, &values);
    strcat(out, "}}");
  } else if (TLP_IS("close")) {
    tlp_target **at = &targets;
    while (__atomic_load_n(&t->sessions, __ATOMIC_ACQUIRE)) usleep(1000);
    driver->close(t->target);
    while (*at != t) at = &(*at)->next;
    *at = t->next;
    free(t);
  }
  if (code < 0) tlp_fail(out, room, words);
}

/* Serves until Taillight closes the socket, which ends the program; returns its exit code where it cannot serve. */
static int taillight_serve(const tl_driver *driver) {
  enum { ROOM = 1 << 20 };
  char *ask = (char *)malloc(ROOM), *out = (char *)malloc(ROOM);
  size_t len = 0;
  int fd = -1;
  while (driver && ask && out) {
    char space[CMSG_SPACE(sizeof(int))];
    struct iovec part = {ask + len, ROOM - 1 - len};
    struct msghdr message;
    struct cmsghdr *control;
    ssize_t n;
    memset(&message, 0, sizeof message);
    message.msg_iov = &part, message.msg_iovlen = 1, message.msg_control = space, message.msg_controllen = sizeof space;
    n = recvmsg(0, &message, MSG_CMSG_CLOEXEC);
    if (n < 0) return fprintf(stderr, "this is a driver for Taillight, which starts it: docs/stores.md\n"), 64;
    if (n == 0) _exit(0);
    control = CMSG_FIRSTHDR(&message);
    if (control && control->cmsg_type == SCM_RIGHTS) memcpy(&fd, CMSG_DATA(control), sizeof fd);
    len += (size_t)n;
    if (ask[len - 1] != '\n') continue;
    ask[len - 1] = 0, len = 0;
    tlp_answer(driver, ask, fd, out, ROOM - 2);
    strcat(out, "\n");
    for (size_t at = 0, all = strlen(out); at < all; at += (size_t)n)
      if ((n = send(0, out + at, all - at, MSG_NOSIGNAL)) < 0) _exit(1);
    if (fd >= 0) close(fd);
    fd = -1;
  }
  return 70;
}

/* A store of one function, called by as many threads as there are workers. */
typedef struct {
  const char *describe; /* JSON, as tl_driver's */
  /* Performs one operation whose key and value are in memory; the status. What it sets of done is kept. */
  int32_t (*run)(const tl_op *op, char *memory, uint64_t slot_size, tl_done *done);
  int (*empty)(void); /* as TL_EMPTY; NULL: not known */
} tl_store;

#ifndef TAILLIGHT_NO_STORE /* defined by who has a tl_session of his own */
struct tl_session {
  char *memory;
  uint64_t slot_size;
};
static const tl_store *tlp_store;

static tl_text tlp_s_describe(void) { return (tl_text){tlp_store->describe, strlen(tlp_store->describe)}; }
static int tlp_s_open(tl_text plan, tl_target **out, tl_shape *shape, char *error, size_t room) {
  (void)plan, (void)out, (void)shape, (void)error, (void)room;
  return 0;
}
static void tlp_s_close(tl_target *target) { (void)target; }
static int tlp_s_session(tl_target *target, const tl_session_spec *spec, tl_session **out, char *error, size_t room) {
  (void)target, (void)error, (void)room;
  if (!(*out = (tl_session *)malloc(sizeof **out))) return -1;
  (*out)->memory = (char *)spec->memory, (*out)->slot_size = spec->slot_size;
  return 0;
}
static void tlp_s_close_session(tl_session *s) { free(s); }
static int32_t tlp_s_submit(tl_session *s, const tl_op *ops, uint32_t n, tl_done *done, uint32_t *ended) {
  for (*ended = 0; *ended < n; ++*ended) {
    const tl_op *op = &ops[*ended];
    tl_done *end = &done[*ended];
    memset(end, 0, sizeof *end);
    end->token = op->token;
    if (op->kind == TL_NOOP) continue;
    end->start_ns = tlp_now();
    end->status = tlp_store->run(op, s->memory, s->slot_size, end);
    end->end_ns = tlp_now();
  }
  return (int32_t)n;
}
static int tlp_s_admin(tl_target *target, uint32_t action, char *error, size_t room) {
  (void)target, (void)error, (void)room;
  return action == TL_EMPTY && tlp_store->empty ? tlp_store->empty() : 0;
}

/* As taillight_serve. */
static inline int taillight_serve_store(const tl_store *store) {
  static const tl_driver driver = {sizeof driver, TAILLIGHT_ABI, tlp_s_describe, tlp_s_open, tlp_s_close, tlp_s_session,
                                   tlp_s_close_session, tlp_s_submit, NULL, tlp_s_admin, NULL};
  tlp_store = store;
  return taillight_serve(&driver);
}
#endif
#endif
