import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;

/** A binding of ours over RocksDB with its default options, in the directory `dir`. The one field of a record is its value. */
public class Rocks extends DB {
  private static RocksDB db;
  private static int users;

  private static synchronized void open(String dir) throws DBException {
    if (users++ > 0) return;
    RocksDB.loadLibrary();
    try {
      db = RocksDB.open(new Options().setCreateIfMissing(true), dir);
    } catch (RocksDBException e) {
      users--;
      throw new DBException(e);
    }
  }

  private static synchronized void close() {
    if (--users == 0) db.close();
  }

  private static byte[] bytes(String key) {
    return key.getBytes(StandardCharsets.ISO_8859_1);
  }

  @Override public void init() throws DBException {
    open(getProperties().getProperty("dir"));
  }

  @Override public void cleanup() {
    close();
  }

  @Override public Status read(String table, String key, Set<String> wanted, Map<String, ByteIterator> result) {
    try {
      byte[] value = db.get(bytes(key));
      if (value == null) return Status.NOT_FOUND;
      result.put("field0", new ByteArrayByteIterator(value));
      return Status.OK;
    } catch (RocksDBException e) {
      throw new IllegalStateException(e);
    }
  }

  @Override public Status scan(String table, String key, int count, Set<String> wanted,
      Vector<HashMap<String, ByteIterator>> result) {
    return Status.NOT_IMPLEMENTED;
  }

  @Override public Status update(String table, String key, Map<String, ByteIterator> values) {
    return insert(table, key, values);
  }

  @Override public Status insert(String table, String key, Map<String, ByteIterator> values) {
    try {
      db.put(bytes(key), values.values().iterator().next().toArray());
      return Status.OK;
    } catch (RocksDBException e) {
      throw new IllegalStateException(e);
    }
  }

  @Override public Status delete(String table, String key) {
    try {
      db.delete(bytes(key));
      return Status.OK;
    } catch (RocksDBException e) {
      throw new IllegalStateException(e);
    }
  }

  public boolean isEmpty(String table) {
    try (RocksIterator all = db.newIterator()) {
      all.seekToFirst();
      return !all.isValid();
    }
  }
}
