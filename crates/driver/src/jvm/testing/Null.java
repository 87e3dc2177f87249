import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.Status;

/** A binding that does nothing: what is left is the cost of the bridge. Reads give `fieldcount` fields of `fieldlength` bytes. */
public class Null extends DB {
  private String[] names;
  private Bytes[] fields;

  /** The same bytes again and again. */
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

    @Override public void reset() {
      at = 0;
    }

    @Override public byte[] toArray() {
      byte[] rest = Arrays.copyOfRange(bytes, at, bytes.length);
      at = bytes.length;
      return rest;
    }
  }

  @Override public void init() {
    int count = Integer.parseInt(getProperties().getProperty("fieldcount", "1"));
    byte[] value = new byte[Integer.parseInt(getProperties().getProperty("fieldlength", "100"))];
    names = new String[count];
    fields = new Bytes[count];
    for (int i = 0; i < count; i++) {
      names[i] = "field" + i;
      fields[i] = new Bytes(value);
    }
  }

  @Override public Status read(String table, String key, Set<String> wanted, Map<String, ByteIterator> result) {
    for (int i = 0; i < names.length; i++) {
      fields[i].reset();
      result.put(names[i], fields[i]);
    }
    return Status.OK;
  }

  @Override public Status scan(String table, String key, int count, Set<String> wanted,
      Vector<HashMap<String, ByteIterator>> result) {
    return Status.OK;
  }

  @Override public Status update(String table, String key, Map<String, ByteIterator> values) {
    return Status.OK;
  }

  @Override public Status insert(String table, String key, Map<String, ByteIterator> values) {
    return Status.OK;
  }

  @Override public Status delete(String table, String key) {
    return Status.OK;
  }
}
