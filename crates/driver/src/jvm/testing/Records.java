import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListMap;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;

/**
 * A binding of ours for tests: records in a map of the VM. The property `fault` makes it misbehave; `ballast` is how many
 * objects it keeps, so that a full collection takes long.
 */
public class Records extends DB {
  static final ConcurrentHashMap<String, ConcurrentSkipListMap<String, Map<String, byte[]>>> TABLES =
      new ConcurrentHashMap<>();
  static Object[] ballast;
  private String fault = "";
  private int updates;
  /** Inserts that are not done yet. */
  private final List<Runnable> collected = new ArrayList<>();

  static final class Bytes extends ByteIterator {
    private final byte[] bytes;
    private int at;

    Bytes(byte[] bytes) {
      this.bytes = bytes;
    }

    @Override public boolean hasNext() {
      return at < bytes.length;
    }

    @Override public byte nextByte() {
      return bytes[at++];
    }

    @Override public long bytesLeft() {
      return bytes.length - at;
    }
  }

  @Override public void init() throws DBException {
    fault = getProperties().getProperty("fault", "");
    System.out.println("Records begins");
    if (fault.equals("needs") && getProperties().getProperty("hosts") == null)
      throw new DBException("Required property \"hosts\" missing");
    if (fault.equals("exits-early")) System.exit(1);
    if (fault.equals("threads")) new Thread(Records::stay).start();
    if (fault.equals("leaves")) leave();
    int objects = Integer.parseInt(getProperties().getProperty("ballast", "0"));
    if (objects > 0 && ballast == null) {
      ballast = new Object[objects];
      for (int i = 0; i < objects; i++) ballast[i] = new Object[] {i > 0 ? ballast[i - 1] : null};
    }
  }

  /** What a thread does that no end of a program waits for, though it is no daemon. */
  private static void stay() {
    try {
      Thread.sleep(600_000);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** A file that is to be deleted at the end, and a hook that makes one. */
  private static synchronized void leave() {
    try {
      java.io.File left = new java.io.File("left");
      if (!left.createNewFile()) return;
      left.deleteOnExit();
      Runtime.getRuntime().addShutdownHook(new Thread(() -> new java.io.File("ended").mkdir()));
    } catch (java.io.IOException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Writes to an address where nothing is. */
  private static void crash() {
    try {
      Class<?> unsafe = Class.forName("sun.misc.Unsafe");
      java.lang.reflect.Field the = unsafe.getDeclaredField("theUnsafe");
      the.setAccessible(true);
      unsafe.getMethod("putByte", long.class, byte.class).invoke(the.get(null), 0L, (byte) 1);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  private static ConcurrentSkipListMap<String, Map<String, byte[]>> of(String table) {
    return TABLES.computeIfAbsent(table, name -> new ConcurrentSkipListMap<>());
  }

  private static void give(Map<String, byte[]> record, Map<String, ByteIterator> result) {
    record.forEach((name, bytes) -> result.put(name, new Bytes(bytes)));
  }

  private Map<String, byte[]> take(Map<String, ByteIterator> values) {
    Map<String, byte[]> record = new HashMap<>();
    values.forEach((name, it) -> record.put(name, it.toArray()));
    if (fault.equals("changes"))
      record.forEach((name, bytes) -> {
        values.remove(name);
        values.put(name, new Bytes(bytes));
      });
    return record;
  }

  private void settle() {
    collected.forEach(Runnable::run);
    collected.clear();
  }

  @Override public void cleanup() {
    settle();
  }

  private boolean is(String what, String key) {
    return fault.equals(what) && !key.startsWith("taillight");
  }

  @Override public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    settle();
    Map<String, byte[]> record = of(table).get(key);
    // OK with nothing in it, as some bindings answer.
    if (record != null) give(record, result);
    return Status.OK;
  }

  @Override public Status scan(String table, String key, int count, Set<String> fields,
      Vector<HashMap<String, ByteIterator>> result) {
    settle();
    if (fault.equals("scanless")) return Status.NOT_IMPLEMENTED;
    for (Map<String, byte[]> record : of(table).tailMap(key).values()) {
      if (result.size() == count) break;
      HashMap<String, ByteIterator> one = new HashMap<>();
      give(record, one);
      result.add(one);
    }
    return Status.OK;
  }

  @Override public Status update(String table, String key, Map<String, ByteIterator> values) {
    if (is("throws", key) && ++updates % 2 == 0) throw new IllegalStateException("no leader\nfor this key");
    if (is("exits", key) && ++updates == 20) System.exit(3);
    if (is("crashes", key) && ++updates == 200) crash();
    if (is("collects", key) && ++updates == 2000) System.gc();
    settle();
    Map<String, byte[]> record = of(table).get(key);
    if (record == null) return Status.NOT_FOUND;
    Map<String, byte[]> changed = new HashMap<>(record);
    changed.putAll(take(values));
    of(table).put(key, changed);
    return is("batches", key) ? Status.BATCHED_OK : Status.OK;
  }

  @Override public Status insert(String table, String key, Map<String, ByteIterator> values) {
    if (fault.equals("forgets")) return Status.OK;
    if (fault.equals("collects-inserts")) {
      collected.add(() -> of(table).put(key, take(values)));
      return Status.BATCHED_OK;
    }
    of(table).put(key, take(values));
    return Status.OK;
  }

  public boolean isEmpty(String table) {
    return of(table).isEmpty();
  }

  @Override public Status delete(String table, String key) {
    settle();
    return of(table).remove(key) == null ? Status.NOT_FOUND : Status.OK;
  }
}
