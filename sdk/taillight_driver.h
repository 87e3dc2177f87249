/* Taillight drivers without recompiling Taillight: a shared library that exports one function, taillight_driver_v1.
 *
 * STABILITY. ABI 1 stays as it is. Each struct that crosses the border begins with its size in bytes (but tl_text,
 * and tl_op and tl_done, which are 64 bytes for ever), fields are only appended, and what is appended may be left
 * out: a library built with an older header works with a newer Taillight, and the other way round. Numbers keep
 * their meaning. What cannot be done so becomes taillight_driver_v2 beside this one.
 *
 * RULES
 * - An operation that was accepted ends exactly once, in submit or in poll. A failed operation is an end as well.
 * - Memory of keys and values is the host's, one block a session. A pointer into it is good until the operation ends.
 * - No clock is needed. No allocation per operation is asked of anybody.
 * - A session is used by one thread at a time. Calls for a target may come from any thread, sample while sessions work.
 * - The library is never unloaded: it may have threads and a run-time of its own.
 * - It runs in Taillight's process: a crash in it ends the run, and exit() in it as well. SIGINT, SIGQUIT, SIGTERM and
 *   SIGHUP are the host's: what is set for them while the library is loaded, opened or asked for a session is put back. */
#ifndef TAILLIGHT_DRIVER_H
#define TAILLIGHT_DRIVER_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TAILLIGHT_ABI 1u

/* Text is UTF-8 with a length; no zero byte ends it. */
typedef struct {
  const char *at;
  size_t len;
} tl_text;

/* Kinds of operation. Blocks are named by offset, records by key. */
enum {
  TL_READ = 0, TL_WRITE = 1, TL_TRIM = 2, TL_FSYNC = 3,
  TL_GET = 4,    /* a value into the slot; TL_NOT_FOUND when there is none */
  TL_PUT = 5,    /* a value, whether the key is there or not */
  TL_INSERT = 6, /* a new key; as TL_PUT where it is there */
  TL_UPDATE = 7, /* the whole value anew, or one field of it: see tl_op.field */
  TL_DELETE = 8,
  TL_SCAN = 9,   /* count records from key on, in key order: see TL_REVERSE */
  TL_NOOP = 255  /* ends well without the store: the host measures the bridge by it. It may carry key and value: what makes
                    other things of them does so here, too, and gives as many bytes back as offset says */
};

/* tl_op.sync: what is durable before the operation ends. */
enum { TL_SYNC_NONE = 0, TL_SYNC_DATA = 1, TL_SYNC_ALL = 2 };

/* tl_op.flags */
enum {
  TL_KEEP = 1,    /* what is read has to be in the slot; else it may stay where the store has it */
  TL_REVERSE = 2, /* a scan against the order of keys */
  TL_MARK = 4     /* the host's mark: what has tables or prefixes keeps it where no scan meets it */
};

#define TL_ALL_FIELDS 0xffffu

/* One operation; what reserved holds is 0 and not to be looked at. */
typedef struct {
  uint64_t token;     /* given back in tl_done */
  uint8_t kind, sync;
  uint16_t target;    /* file of the target; 0 */
  uint32_t count;     /* records of a scan or batch; 1 elsewhere */
  uint64_t offset;    /* of blocks; of records the number behind the key, for who wants to spread them */
  uint64_t size;      /* bytes of a block or value to write; of a batch those of each value, which lie end to end */
  uint32_t slot;      /* 0 to depth - 1: one operation in flight for each */
  uint32_t key_len;
  uint64_t key_at;    /* offset in the session's memory. A batch: count keys, a uint32_t length before each, together
                         key_len bytes */
  uint64_t value_at;  /* offset of the slot's buffer in the session's memory */
  uint16_t field;     /* TL_ALL_FIELDS, or an update of one field: the slot holds its entry, a big-endian uint32_t
                         length before the name and before the data, as each field of a value has */
  uint16_t flags;
  uint32_t reserved;
} tl_op;

/* tl_done.status: 0, an errno above 0, or one of these. */
enum { TL_OK = 0, TL_TIMEOUT = -1, TL_SHORT = -2, TL_STORE = -4, TL_NOT_FOUND = -6 };

/* How an operation ended. Fields that were not asked for or are not known are 0. */
typedef struct {
  uint64_t token;
  int32_t status;
  uint32_t count;              /* records a scan or batch had */
  uint64_t moved;              /* bytes of values; of a get those of the whole value, also where the slot is smaller */
  uint64_t start_ns, end_ns;   /* CLOCK_MONOTONIC around the store's own call */
  uint64_t first_ns;           /* CLOCK_MONOTONIC of the first byte */
  uint64_t sync_ns;            /* how long the sync of this write took */
  uint16_t retries;
  uint16_t reserved[3];
} tl_done;

typedef struct tl_target tl_target;   /* the plug-in's own */
typedef struct tl_session tl_session;

/* What open says of the data: the host fills in what the plan says, 0 where it says nothing. */
typedef struct {
  uint32_t size;
  uint32_t align;      /* offsets and sizes of blocks are multiples of it */
  uint64_t file_size;  /* bytes of the data set of blocks */
} tl_shape;

typedef struct {
  uint32_t size;
  uint32_t worker;       /* TL_HOST for the host's own session, which keeps its mark. Each worker's is made several times:
                            before the load, to measure the bridge by TL_NOOP alone, and for the load */
  uint32_t depth;        /* operations in flight at most */
  uint32_t reserved;
  void *memory;          /* aligned to 2 MiB, in a program to 4,096; the host's, gone after close_session */
  uint64_t memory_len;
  uint64_t slot_size;    /* bytes of a slot's buffer; each begins at a multiple of 4,096 */
} tl_session_spec;

#define TL_HOST 0xffffffffu

/* Actions outside the measured loop; claimed in describe, but for TL_EMPTY. */
enum {
  TL_FLUSH = 0, TL_COMPACT = 1, TL_DROP_CACHES = 2,
  TL_EMPTY = 16 /* 1: nothing is stored at the target; 0: something is. Asked when the host's mark is not there, and of
                   blocks by a check where nothing is at the path */
};

/* The plug-in. Functions that return int give 0, or less than 0 with words in error (cut at error_len). */
typedef struct {
  uint32_t size, abi; /* sizeof(tl_driver), TAILLIGHT_ABI */

  /* JSON, good for ever. Known words and what they are when left out:
   *   name (required), about "", version "",
   *   kind "file" | "keyed" (required),
   *   ops [] of read write trim fsync, or get put insert update delete scan (a plan's rmw needs get and update),
   *   max_depth 1 (deeper: operations may be queued, at most 4,096 a session), submit_batch 0 (all) or how many
   *   operations one submit takes, batches [] of those operations whose count may be above 1,
   *   stores_data true (false: reads return nothing that was written, and nothing can be lost),
   *   sync false, fields false (updates of one field), admin [] of flush compact drop_caches,
   *   samples {} (how reports show what sample gives; left out, by the units in the names): panels [] of {title, unit,
   *   lines []}, a line {series, words} or, of the share of hits, {series, words, misses}; unit is one of bytes
   *   bytes_per_second per_second percent percent_of_time count times,
   *   options [] of {name, default, about, values ""}: true or false, a number, or a text. */
  tl_text (*describe)(void);

  /* Opens. plan is JSON: path, size, run_id, read_only, workers, depth, buffer (bytes), options (all of them). */
  int (*open)(tl_text plan, tl_target **, tl_shape *, char *error, size_t error_len);
  void (*close)(tl_target *);
  int (*session)(tl_target *, const tl_session_spec *, tl_session **, char *error, size_t error_len);
  void (*close_session)(tl_session *); /* not called while something is in flight */

  /* Takes operations in their order and says how many; fewer than n only while some are in flight, less than 0 when
   * the session is lost. Those that ended within the call are written to done, which has room for n, and counted in
   * *ended, which is 0 before. */
  int32_t (*submit)(tl_session *, const tl_op *, uint32_t n, tl_done *done, uint32_t *ended);
  /* Waits for min ends (0: for none) or until CLOCK_MONOTONIC reaches until_ns; how many, at most room; less than 0
   * when the session is lost. NULL when submit ends everything. */
  int32_t (*poll)(tl_session *, tl_done *, uint32_t room, uint32_t min, uint64_t until_ns);

  /* Optional from here on: NULL, or left out by a smaller size. */
  int (*admin)(tl_target *, uint32_t action, char *error, size_t error_len);
  /* Statistics, once an interval: counters are totals and their names end in _total. At most 1,000, whose names are of
   * ASCII letters, digits and _.-: and of 100 characters at most; others are left aside. */
  void (*sample)(tl_target *, void (*out)(void *to, tl_text name, double value), void *to);
} tl_driver;

/* The one exported function. host_abi is the newest that the host speaks; NULL when that is too old. */
const tl_driver *taillight_driver_v1(uint32_t host_abi);

#ifdef __cplusplus
}
#endif
#endif
