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
  /** By number; in the order in which the map has them, once it has all. */
  private final Field[] iterators, order;
  /** The numbers of a value's fields as they come. */
  private final int[] found;
  private HashMap<String, ByteIterator> values = new HashMap<>();
  private final Vector<HashMap<String, ByteIterator>> scanned = new Vector<>();

  Ycsb(Map<String, String> said, ByteBuffer ops, ByteBuffer memory) throws Throwable {
    super(said, ops, memory);
    table = said.get("table");
    marks = said.get("marks");
    batched = said.get("batched").equals("true");
    iterators = new Field[names.length];
    for (int i = 0; i < names.length; i++) iterators[i] = new Field(fieldNames[i], memory.duplicate());
    order = iterators.clone();
    found = new int[names.length];
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
    try {
      db.cleanup();
    } finally {
      for (Field field : iterators) field.end();
    }
  }

  @Override void made(int at, int size) {
    fill(!fields, at, size);
  }

  @Override int one(int kind, String key, int at, int size, int count, int field, int flags) throws Throwable {
    Status s;
    boolean mark = (flags & MARK) != 0, raw = !fields || mark;
    String table = mark ? marks : this.table;
    switch (kind) {
      case GET: {
        // Its own, as in YCSB: what is put into an old map has to be noted for the collector, field by field.
        HashMap<String, ByteIterator> result = new HashMap<>();
        start = System.nanoTime();
        s = db.read(table, key, null, result);
        end = System.nanoTime();
        if (s == Status.OK) {
          // An answer without a field is none: bindings say OK where there was no record.
          if (result.isEmpty()) return NOT_FOUND;
          if (raw) value(result, at, flags);
          else fields(result, at, flags);
        }
        break;
      }
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
  private void value(Map<String, ByteIterator> result, int at, int flags) {
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

  /** What is written, as the binding gets it: copied only where it asks for it, and in a map that keeps its entries. */
  private void fill(boolean raw, int at, int size) {
    int begin = at, n = 0;
    if (batched) {
      // A binding that collects writes keeps what it got.
      take(at, size);
      for (int i = 0; i < names.length; i++) iterators[i] = new Field(fieldNames[i], ByteBuffer.wrap(value));
      values = new HashMap<>();
      value = new byte[0];
      begin = 0;
    }
    if (raw) found(n++, 0, begin, size);
    else
      for (int from = 0; from + 4 <= size; ) {
        int name = lengths.getInt(at + from);
        // The end of the name and the length of the data by one access: most come in the order of their numbers.
        long tail = lengths.getLong(at + from + name);
        int data = (int) tail;
        boolean next = n < tails.length && name == names[n].length && (int) (tail >>> 32) == tails[n];
        found(n, next ? n : field(n, at + from + 4, name), begin + from + 8 + name, data);
        from += 8 + name + data;
        n++;
      }
    if (n == names.length && isWhole()) return;
    values.clear();
    for (int i = 0; i < n; i++) values.put(fieldNames[found[i]], iterators[found[i]]);
    if (values.size() < names.length) return;
    n = 0;
    for (ByteIterator it : values.values()) order[n++] = (Field) it;
  }

  /** The next field of a value. */
  private void found(int place, int number, int from, int length) {
    if (number < 0) throw new IllegalStateException("a field that the plan does not name");
    found[place] = number;
    iterators[number].set(from, length);
  }

  /** Whether the map has all fields, and no binding has changed it. */
  private boolean isWhole() {
    if (values.size() != names.length) return false;
    int n = 0;
    for (Map.Entry<String, ByteIterator> e : values.entrySet()) {
      Field field = order[n++];
      if (e.getValue() != field || e.getKey() != field.name) return false;
    }
    return true;
  }
}
