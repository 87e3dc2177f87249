import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Driver;
import java.sql.DriverManager;
import java.sql.DriverPropertyInfo;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.logging.Logger;

/**
 * A JDBC driver of ours for tests, for one worker: records in a map of the VM. The 60th read of a record loses the
 * connection, and the next three attempts to connect are refused.
 */
public class Away implements Driver {
  private static final int LAST = 60, REFUSED = 3;
  private static final ConcurrentHashMap<String, byte[]> ROWS = new ConcurrentHashMap<>();
  private static final AtomicInteger READS = new AtomicInteger(), ATTEMPTS = new AtomicInteger();

  static {
    try {
      DriverManager.registerDriver(new Away());
    } catch (SQLException e) {
      throw new IllegalStateException(e);
    }
  }

  /** What an object says when a method is called; null where nothing is awaited. */
  private interface Answers {
    Object to(String method, Object[] args) throws Throwable;
  }

  private static <T> T made(Class<T> type, Answers answers) {
    Class<?>[] types = {type};
    return type.cast(Proxy.newProxyInstance(Away.class.getClassLoader(), types,
        (proxy, method, args) -> answers.to(method.getName(), args)));
  }

  @Override public Connection connect(String url, Properties info) throws SQLException {
    if (!acceptsURL(url)) return null;
    if (READS.get() >= LAST && ATTEMPTS.getAndIncrement() < REFUSED)
      throw new SQLException("the server is away", "08001");
    return made(Connection.class, (method, args) -> {
      switch (method) {
        case "prepareStatement": return statement((String) args[0]);
        case "createStatement": return statement("");
        case "getMetaData": return made(DatabaseMetaData.class, (name, none) -> "Away");
        case "isValid": return true;
        case "isClosed": return false;
        default: return null;
      }
    });
  }

  /** A statement; one without text asks whether there are rows. */
  private static PreparedStatement statement(String sql) {
    String[] key = {""};
    byte[][] value = {null};
    return made(PreparedStatement.class, (method, args) -> {
      switch (method) {
        case "setString": key[0] = (String) args[1]; return null;
        case "setBytes": value[0] = (byte[]) args[1]; return null;
        case "executeUpdate":
          if (sql.startsWith("DELETE")) return ROWS.remove(key[0]) == null ? 0 : 1;
          if (sql.startsWith("UPDATE")) return ROWS.replace(key[0], value[0]) == null ? 0 : 1;
          ROWS.put(key[0], value[0]);
          return 1;
        case "executeQuery":
          if (sql.isEmpty()) return rows(ROWS.isEmpty() ? null : new byte[0]);
          if (!key[0].startsWith("taillight") && READS.incrementAndGet() == LAST)
            throw new SQLException("the connection is lost", "08006");
          return rows(ROWS.get(key[0]));
        default: return null;
      }
    });
  }

  /** One row, or none. */
  private static ResultSet rows(byte[] value) {
    boolean[] more = {value != null};
    return made(ResultSet.class, (method, args) -> {
      if (method.equals("getBytes")) return value;
      if (!method.equals("next")) return null;
      boolean is = more[0];
      more[0] = false;
      return is;
    });
  }

  @Override public boolean acceptsURL(String url) {
    return url.startsWith("jdbc:away:");
  }

  @Override public DriverPropertyInfo[] getPropertyInfo(String url, Properties info) {
    return new DriverPropertyInfo[0];
  }

  @Override public int getMajorVersion() {
    return 1;
  }

  @Override public int getMinorVersion() {
    return 0;
  }

  @Override public boolean jdbcCompliant() {
    return false;
  }

  @Override public Logger getParentLogger() {
    return null;
  }
}
