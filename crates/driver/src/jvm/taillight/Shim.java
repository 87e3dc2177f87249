package taillight;

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;

/** One worker's store: descriptors of sdk/taillight_driver.h in, ends out, many by one call. */
abstract class Shim {
  static final int GET = 4, INSERT = 6, UPDATE = 7, DELETE = 8, SCAN = 9, NOOP = 255;
  static final int KEEP = 1, MARK = 4, ALL_FIELDS = 0xffff, BYTES = 64;
  static final int OK = 0, STORE = -4, NOT_FOUND = -6, NOT_IMPLEMENTED = 38;
  /** Distinct words of failures, with how often each came. */
  private static final Map<String, Integer> FAILURES = new LinkedHashMap<>();
  private static final int KEPT_FAILURES = 8;
  /** Connections of JDBC that were made in place of lost ones, by all workers; below 0 where nobody uses JDBC. */
  static final AtomicLong RECONNECTS = new AtomicLong(-1);

  private final ByteBuffer ops;
  private final int depth;
  final ByteBuffer memory;
  /** The same for lengths, which are big-endian. */
  final ByteBuffer lengths;
  final int slotSize;
  final boolean fields;
  /** Bytes that the names of all fields begin with. */
  private final int prefix;
  final byte[][] names;
  /** Of each field whose number has four digits at most: the last four bytes of its name behind the name's length. */
  final int[] tails;
  final String[] fieldNames;
  /** What is written, and the key. */
  byte[] value = new byte[0], key = new byte[256];
  /** Of the operation that runs: stamps around the store's own call, records, bytes. */
  long start, end, moved;
  int count;

  Shim(Map<String, String> said, ByteBuffer ops, ByteBuffer memory) {
    this.ops = ops.order(ByteOrder.nativeOrder());
    this.memory = memory.order(ByteOrder.nativeOrder());
    lengths = memory.duplicate().order(ByteOrder.BIG_ENDIAN);
    depth = ops.capacity() / (2 * BYTES);
    slotSize = Integer.parseInt(said.get("slot"));
    int n = Integer.parseInt(said.get("fields"));
    fields = n > 1;
    prefix = said.get("prefix").getBytes(StandardCharsets.UTF_8).length;
    names = new byte[n][];
    tails = new int[Math.min(n, 10_000)];
    fieldNames = new String[n];
    for (int i = 0; i < n; i++) {
      fieldNames[i] = said.get("prefix") + i;
      names[i] = fieldNames[i].getBytes(StandardCharsets.UTF_8);
      if (i < tails.length)
        tails[i] = ByteBuffer.allocate(4 + names[i].length).putInt(names[i].length).put(names[i]).getInt(names[i].length);
    }
  }

  /** Makes a value Java's, as a write of it does. */
  abstract void made(int at, int size) throws Throwable;

  /** Told before the first operation of each call. */
  void begin() {}

  /** One operation; its status. Sets the stamps, and what it moved. */
  abstract int one(int kind, String key, int at, int size, int count, int field, int flags) throws Throwable;

  abstract void close() throws Throwable;

  /** Runs n descriptors from the start of the buffer. */
  final void run(int n) {
    begin();
    for (int i = 0; i < n; i++) {
      int op = i * BYTES, done = (depth + i) * BYTES;
      int status = OK, kind = ops.get(op + 8) & 255;
      start = end = moved = 0;
      count = 0;
      try {
        String key = key(ops.getInt(op + 36), (int) ops.getLong(op + 40));
        int at = (int) ops.getLong(op + 48), size = (int) ops.getLong(op + 24);
        if (kind == NOOP) nothing(at, size);
        else status = one(kind, key, at, size, ops.getInt(op + 12), ops.getShort(op + 56) & ALL_FIELDS, ops.getShort(op + 58));
      } catch (Throwable t) {
        status = failed(t);
      }
      if (status != OK) {
        moved = 0;
        count = 0;
      }
      ops.putInt(done + 8, status);
      ops.putInt(done + 12, count);
      ops.putLong(done + 16, moved);
      ops.putLong(done + 24, start);
      ops.putLong(done + 32, end);
      // Last: the host knows by it that nothing was thrown out of here.
      ops.putLong(done, ops.getLong(op));
    }
  }

  /** All that an operation costs here but the store's own call. */
  private void nothing(int at, int size) throws Throwable {
    if (size > 0) made(at, size);
    start = System.nanoTime();
    end = System.nanoTime();
  }

  /** Bytes of a key as a text of as many characters. */
  @SuppressWarnings("deprecation")
  private String key(int length, int at) {
    if (length > key.length) key = new byte[length];
    ((java.nio.Buffer) memory).position(at);
    memory.get(key, 0, length);
    return new String(key, 0, 0, length);
  }

  /** Takes what is written from the slot. */
  final void take(int at, int size) {
    if (size > value.length) value = new byte[size];
    ((java.nio.Buffer) memory).position(at);
    memory.get(value, 0, size);
  }

  /** Puts bytes into the slot, behind those that were moved. */
  final void give(int at, byte[] bytes, int flags) {
    if ((flags & KEEP) != 0 && moved < slotSize) {
      ((java.nio.Buffer) memory).position(at + (int) moved);
      memory.put(bytes, 0, (int) Math.min(bytes.length, slotSize - moved));
    }
    moved += bytes.length;
  }

  /** A big-endian length. */
  static byte[] length(int n) {
    return new byte[] {(byte) (n >> 24), (byte) (n >> 16), (byte) (n >> 8), (byte) n};
  }

  static int length(byte[] b, int at) {
    return (b[at] & 255) << 24 | (b[at + 1] & 255) << 16 | (b[at + 2] & 255) << 8 | b[at + 3] & 255;
  }

  /** The number of the field whose name lies there in the memory, or -1; the most likely is tried first. All begin alike. */
  final int field(int likely, int at, int length) {
    int i = likely < names.length ? likely : 0;
    for (int n = 0; n < names.length; n++, i = i + 1 < names.length ? i + 1 : 0) {
      if (names[i].length == length) {
        int same = prefix;
        while (same < length && names[i][same] == memory.get(at + same)) same++;
        if (same == length) return i;
      }
    }
    return -1;
  }

  static int failed(Throwable t) {
    return failed(words(t));
  }

  static synchronized int failed(String words) {
    if (FAILURES.containsKey(words) || FAILURES.size() < KEPT_FAILURES) FAILURES.merge(words, 1, Integer::sum);
    return STORE;
  }

  /** What went wrong, with its causes, on one line. */
  static String words(Throwable t) {
    StringBuilder out = new StringBuilder();
    for (int n = 0; t != null && n < 4; n++, t = t.getCause()) {
      if (n > 0 && out.indexOf(String.valueOf(t.getMessage())) >= 0) continue;
      out.append(n > 0 ? ": " : "").append(t);
    }
    return out.toString().replaceAll("\\s+", " ");
  }

  /** Pairs of texts. */
  static Map<String, String> pairs(String[] words, int from) {
    Map<String, String> all = new LinkedHashMap<>();
    for (int i = from; i + 1 < words.length; i += 2) all.put(words[i], words[i + 1]);
    return all;
  }

  /** One question of the host's: text in, text out behind its length, which is below 0 where it is an error. */
  static Object call(ByteBuffer text, ByteBuffer ops, ByteBuffer memory) {
    byte[] bytes = new byte[text.order(ByteOrder.nativeOrder()).getInt(0)];
    ((java.nio.Buffer) text).position(4);
    text.get(bytes);
    String[] words = new String(bytes, StandardCharsets.UTF_8).split("\0", -1);
    Object made = null;
    String answer = "";
    boolean good = true;
    try {
      switch (words[0]) {
        case "start": answer = started(); break;
        case "class": answer = about(words[1], words[2]); break;
        case "ycsb": made = new Ycsb(pairs(words, 1), ops, memory); break;
        case "jdbc": made = new Jdbc(pairs(words, 1), ops, memory); break;
        case "jdbc-about": answer = Jdbc.about(pairs(words, 1)); break;
        case "ycsb-empty": answer = Ycsb.empty(pairs(words, 1)); break;
        case "jdbc-empty": answer = Jdbc.empty(pairs(words, 1)); break;
        case "failures": answer = failures(); break;
        default: answer = collected();
      }
    } catch (Throwable t) {
      answer = words(t);
      good = false;
    }
    byte[] out = answer.getBytes(StandardCharsets.UTF_8);
    int length = Math.min(out.length, text.capacity() - 4);
    text.putInt(0, good ? length : -1 - length);
    ((java.nio.Buffer) text).position(4);
    text.put(out, 0, length);
    return made;
  }

  /** What prints goes to standard error; which VM this is. */
  private static String started() {
    System.setOut(System.err);
    return System.getProperty("java.vm.name") + " " + System.getProperty("java.runtime.version");
  }

  /** Finds a class, says where it is from. */
  private static String about(String name, String base) throws Throwable {
    Class<?> found;
    try {
      found = Class.forName(name);
    } catch (ClassNotFoundException e) {
      throw new Exception("no class of this name on the class path");
    }
    if (!base.isEmpty()) {
      if (!Class.forName(base).isAssignableFrom(found)) throw new Exception("the class is no " + base);
      found.getDeclaredConstructor();
    }
    java.security.CodeSource source = found.getProtectionDomain().getCodeSource();
    Package of = found.getPackage();
    String version = of == null ? null : of.getImplementationVersion();
    String file = source == null ? "" : source.getLocation().getPath().replaceAll(".*/(?=.)", "");
    return file + (version == null ? "" : " " + version);
  }

  private static synchronized String failures() {
    StringBuilder out = new StringBuilder();
    // Those of the next run are its own.
    FAILURES.forEach((words, n) -> out.append(out.length() == 0 ? "" : "\n").append(n).append(" x ").append(words));
    FAILURES.clear();
    return out.toString();
  }

  /**
   * Collections of garbage so far, and ms that they took; bytes of the heap in use; connections of JDBC made anew; ms
   * that the compiler worked. Between two blanks stands nothing where there is no such figure.
   */
  private static String collected() {
    long n = 0, ms = 0;
    for (GarbageCollectorMXBean b : ManagementFactory.getGarbageCollectorMXBeans()) {
      n += Math.max(0, b.getCollectionCount());
      ms += Math.max(0, b.getCollectionTime());
    }
    Runtime r = Runtime.getRuntime();
    java.lang.management.CompilationMXBean compiler = ManagementFactory.getCompilationMXBean();
    boolean timed = compiler != null && compiler.isCompilationTimeMonitoringSupported();
    long reconnects = RECONNECTS.get();
    return n + " " + ms + " " + (r.totalMemory() - r.freeMemory()) + " " + (reconnects < 0 ? "" : reconnects) + " "
        + (timed ? compiler.getTotalCompilationTime() : "");
  }

  /** Ends a session; what goes wrong is noted. */
  final void end() {
    try {
      close();
    } catch (Throwable t) {
      failed(t);
    }
  }
}
