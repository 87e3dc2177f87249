package site.ycsb;

import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.Vector;

/** What YCSB's class of this name looks like to its callers, so that tests need no jar. */
public abstract class DB {
  private Properties properties = new Properties();

  public void setProperties(Properties p) {
    properties = p;
  }

  public Properties getProperties() {
    return properties;
  }

  public void init() throws DBException {}

  public void cleanup() throws DBException {}

  public abstract Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result);

  public abstract Status scan(String table, String key, int count, Set<String> fields,
      Vector<HashMap<String, ByteIterator>> result);

  public abstract Status update(String table, String key, Map<String, ByteIterator> values);

  public abstract Status insert(String table, String key, Map<String, ByteIterator> values);

  public abstract Status delete(String table, String key);
}
