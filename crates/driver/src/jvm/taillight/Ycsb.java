package taillight;

import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Vector;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.Status;

/** One worker on a YCSB binding: a DB object of its own. */
final class Ycsb extends Shim {
  private final DB db;
  private final String table, marks;
  private final boolean batched;
  private final Field[] iterators;
  private final HashMap<String, ByteIterator> values = new HashMap<>(), result = new HashMap<>();
  private final Vector<HashMap<String, ByteIterator>> scanned = new Vector<>();

  Ycsb(Map<String, String> said, ByteBuffer ops, ByteBuffer memory) throws Throwable {
    super(said, ops, memory);
    table = said.get("table");
    marks = said.get("marks");
    batched = said.get("batched").equals("true");
    iterators = new Field[names.length];
    for (int i = 0; i < names.length; i++) iterators[i] = new Field();
    db = open(said);
  }

  private static DB open(Map<String, String> said) throws Throwable {
    Properties all = new Properties();
    for (Map.Entry<String, String> e : said.entrySet())
      if (e.getKey().startsWith("p:")) all.setProperty(e.getKey().substring(2), e.getValue());
    if (!said.get("file").isEmpty())
      try (java.io.FileReader in = new java.io.FileReader(said.get("file"))) {
        all.load(in);
      }
    Thread.currentThread().setContextClassLoader(ClassLoader.getSystemClassLoader());
    DB db = (DB) Class.forName(said.get("class")).getDeclaredConstructor().newInstance();
    db.setProperties(all);
    db.init();
    return db;
  }

  /** Whether a binding that can tell says that the table is empty: by boolean isEmpty(String table). */
  static String empty(Map<String, String> said) throws Throwable {
    DB db = open(said);
    try {
      Object is = db.getClass().getMethod("isEmpty", String.class).invoke(db, said.get("table"));
      return Boolean.TRUE.equals(is) ? "1" : "0";
    } finally {
      db.cleanup();
    }
  }

  @Override void close() throws Throwable {
    db.cleanup();
  }

  @Override void made(int at, int size) {
    fill(!fields, at, size);
  }

  @Override int one(int kind, String key, int at, int size, int count, int field, int flags) throws Throwable {
    Status s;
    boolean mark = (flags & MARK) != 0, raw = !fields || mark;
    String table = mark ? marks : this.table;
    switch (kind) {
      case GET:
        result.clear();
        start = System.nanoTime();
        s = db.read(table, key, null, result);
        end = System.nanoTime();
        if (s == Status.OK) {
          // An answer without a field is none: bindings say OK where there was no record.
          if (result.isEmpty()) return NOT_FOUND;
          if (raw) value(at, flags);
          else fields(result, at, flags);
        }
        break;
      case INSERT:
        fill(raw, at, size);
        start = System.nanoTime();
        s = db.insert(table, key, values);
        end = System.nanoTime();
        moved = size;
        break;
      case UPDATE:
        fill(raw && field == ALL_FIELDS, at, size);
        start = System.nanoTime();
        s = db.update(table, key, values);
        end = System.nanoTime();
        moved = size;
        break;
      case DELETE:
        start = System.nanoTime();
        s = db.delete(table, key);
        end = System.nanoTime();
        break;
      default:
        scanned.clear();
        start = System.nanoTime();
        s = db.scan(table, key, count, null, scanned);
        end = System.nanoTime();
        this.count = scanned.size();
        for (HashMap<String, ByteIterator> record : scanned)
          if (raw) for (ByteIterator it : record.values()) moved += it.bytesLeft();
          else fields(record, at, 0);
    }
    return status(s);
  }

  private int status(Status s) {
    if (s == Status.OK) return OK;
    if (s == Status.NOT_FOUND) return NOT_FOUND;
    if (s == Status.NOT_IMPLEMENTED) return NOT_IMPLEMENTED;
    if (s == Status.BATCHED_OK)
      return batched ? OK : failed("BATCHED_OK: the binding collects writes, nothing is stored yet (options.batched = true allows it)");
    return failed(s == null ? "the binding returned no status" : "status " + s.getName() + ": " + s.getDescription());
  }

  /** The value of a record of one field. */
  private void value(int at, int flags) {
    ByteIterator it = result.get(fieldNames[0]);
    if (it == null) it = result.values().iterator().next();
    if ((flags & KEEP) != 0) give(at, it.toArray(), flags);
    else moved += it.bytesLeft();
  }

  /** Fields in the order of their numbers, each behind its lengths. */
  private void fields(Map<String, ByteIterator> record, int at, int flags) {
    for (int i = 0; i < names.length; i++) {
      ByteIterator it = record.get(fieldNames[i]);
      if (it == null) continue;
      if ((flags & KEEP) == 0) {
        moved += 8 + names[i].length + it.bytesLeft();
        continue;
      }
      byte[] data = it.toArray();
      give(at, length(names[i].length), flags);
      give(at, names[i], flags);
      give(at, length(data.length), flags);
      give(at, data, flags);
    }
  }

  /** What is written, as the binding gets it. */
  private void fill(boolean raw, int at, int size) {
    take(at, size);
    // A map that has all fields keeps its entries: one of another size is made anew.
    if (raw || batched || values.size() != names.length) values.clear();
    if (raw) {
      values.put(fieldNames[0], iterator(0).set(value, 0, size));
    } else if (put(at, size) != values.size()) {
      values.clear();
      put(at, size);
    }
    // A binding that collects writes keeps what it got.
    if (batched) value = new byte[0];
  }

  /** Puts the fields of a value into the map; how many these are. */
  private int put(int at, int size) {
    int i = 0;
    for (int from = 0; from + 4 <= size; i++) {
      int name = lengths.getInt(at + from), data = lengths.getInt(at + from + 4 + name);
      int n = field(i, from + 4, name);
      if (n < 0) throw new IllegalStateException("a field that the plan does not name");
      values.put(fieldNames[n], iterator(n).set(value, from + 8 + name, data));
      from += 8 + name + data;
    }
    return i;
  }

  private Field iterator(int n) {
    return batched ? new Field() : iterators[n];
  }
}
