package taillight;

import java.io.FileReader;
import java.nio.ByteBuffer;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLRecoverableException;
import java.util.Map;
import java.util.Properties;

/**
 * One worker on a database: a connection of its own, one prepared statement for each operation. The operation after one
 * that lost the connection connects anew, and so does one on the mark, whose connection is idle while the load runs;
 * nothing is sent twice. Where that fails, so do the others of the call: it waits and pauses once.
 */
final class Jdbc extends Shim {
  /** Between two tries to connect anew, ms: a server that is away is not asked all the time. */
  private static final long PAUSE_MS = 100;
  /** How long an idle connection may take to answer, s. */
  private static final int ANSWER_S = 5;

  private final Map<String, String> said;
  private final boolean text;
  private Connection connection;
  private PreparedStatement read, insert, update, delete, scan;
  private boolean lost;
  /** Why this call could not connect. */
  private Throwable refused;

  Jdbc(Map<String, String> said, ByteBuffer ops, ByteBuffer memory) throws Throwable {
    super(said, ops, memory);
    this.said = said;
    text = said.get("text").equals("true");
    RECONNECTS.compareAndSet(-1, 0);
    open();
  }

  private void open() throws Throwable {
    connection = connect(said);
    connection.setAutoCommit(true);
    read = prepared(said.get("read"));
    insert = prepared(said.get("insert"));
    update = prepared(said.get("update"));
    delete = prepared(said.get("delete"));
    scan = prepared(said.get("scan"));
  }

  private PreparedStatement prepared(String sql) throws SQLException {
    if (sql.isEmpty()) return null;
    try {
      return connection.prepareStatement(sql);
    } catch (SQLException e) {
      throw new SQLException(sql + ": " + e.getMessage(), e);
    }
  }

  private static Connection connect(Map<String, String> said) throws Throwable {
    Properties all = new Properties();
    for (Map.Entry<String, String> e : said.entrySet())
      if (e.getKey().startsWith("p:")) all.setProperty(e.getKey().substring(2), e.getValue());
    if (!said.get("file").isEmpty())
      try (FileReader in = new FileReader(said.get("file"))) {
        all.load(in);
      }
    Thread.currentThread().setContextClassLoader(ClassLoader.getSystemClassLoader());
    if (!said.get("class").isEmpty()) Class.forName(said.get("class"));
    return DriverManager.getConnection(said.get("url"), all);
  }

  /** Connects, performs the statement that makes the table if there is one; what database and client these are. */
  static String about(Map<String, String> said) throws Throwable {
    try (Connection c = connect(said)) {
      if (!said.get("create").isEmpty())
        try (java.sql.Statement s = c.createStatement()) {
          s.execute(said.get("create"));
        }
      DatabaseMetaData about = c.getMetaData();
      return about.getDatabaseProductName() + " " + about.getDatabaseProductVersion() + "\n"
          + about.getDriverName() + " " + about.getDriverVersion();
    }
  }

  /** Whether the table has no row. */
  static String empty(Map<String, String> said) throws Throwable {
    try (Connection c = connect(said); java.sql.Statement s = c.createStatement()) {
      s.setMaxRows(1);
      try (ResultSet rows = s.executeQuery("SELECT 1 FROM " + said.get("table"))) {
        return rows.next() ? "0" : "1";
      }
    }
  }

  @Override void close() throws Throwable {
    connection.close();
  }

  @Override void made(int at, int size) throws SQLException {
    if (insert != null) values(insert, 2, at, size, 0);
    else if (update != null) values(update, 1, at, size, 0);
    else take(at, size);
  }

  @Override void begin() {
    refused = null;
  }

  @Override int one(int kind, String key, int at, int size, int count, int field, int flags) throws Throwable {
    if (!lost && (flags & MARK) != 0) lost = away();
    if (lost) again();
    try {
      return perform(kind, key, at, size, count, flags);
    } catch (SQLException e) {
      String state = e.getSQLState();
      // Class 08 is "connection exception" (ISO 9075-2).
      lost = e instanceof SQLRecoverableException || state != null && state.startsWith("08") || connection.isClosed();
      throw e;
    }
  }

  /** Whether the connection was lost while it was idle; no where the driver cannot tell. */
  private boolean away() {
    try {
      return !connection.isValid(ANSWER_S);
    } catch (Throwable t) {
      return false;
    }
  }

  private void again() throws Throwable {
    if (refused != null) throw refused;
    try {
      connection.close();
    } catch (Throwable t) {
      // It is lost: there is nothing to close.
    }
    try {
      open();
    } catch (Throwable t) {
      refused = t;
      Thread.sleep(PAUSE_MS);
      throw t;
    }
    lost = false;
    RECONNECTS.incrementAndGet();
  }

  private int perform(int kind, String key, int at, int size, int count, int flags) throws Throwable {
    switch (kind) {
      case GET: return rows(read, key, 0, at, flags);
      case SCAN: return rows(scan, key, count, at, flags & ~KEEP);
      case INSERT: {
        values(insert, 2, at, size, flags);
        insert.setString(1, key);
        int n = changed(insert);
        moved = size;
        return n > 0 ? OK : failed("an insert that changed no row");
      }
      case UPDATE: {
        int next = values(update, 1, at, size, flags);
        update.setString(next, key);
        int n = changed(update);
        moved = size;
        return n > 0 ? OK : NOT_FOUND;
      }
      default:
        delete.setString(1, key);
        return changed(delete) > 0 ? OK : NOT_FOUND;
    }
  }

  private int changed(PreparedStatement s) throws SQLException {
    start = System.nanoTime();
    int n = s.executeUpdate();
    end = System.nanoTime();
    return n;
  }

  /** Sets what is written, from a parameter on; the next one. */
  private int values(PreparedStatement s, int from, int at, int size, int flags) throws SQLException {
    take(at, size);
    if (!fields || (flags & MARK) != 0) {
      set(s, from, 0, size);
      for (int i = 1; i < names.length; i++) set(s, from + i, 0, 0);
      return from + names.length;
    }
    for (int place = 0, i = 0; place + 4 <= size; i++) {
      int name = length(value, place), data = length(value, place + 4 + name);
      set(s, from + field(i, at + place + 4, name), place + 8 + name, data);
      place += 8 + name + data;
    }
    return from + names.length;
  }

  @SuppressWarnings("deprecation")
  private void set(PreparedStatement s, int parameter, int from, int length) throws SQLException {
    if (text) s.setString(parameter, new String(value, 0, from, length));
    else s.setBytes(parameter, java.util.Arrays.copyOfRange(value, from, from + length));
  }

  /** Performs a query and reads all of its rows; each column of a row is a field. */
  private int rows(PreparedStatement s, String key, int count, int at, int flags) throws SQLException {
    s.setString(1, key);
    if (s == scan) s.setInt(2, count);
    boolean raw = !fields || (flags & MARK) != 0;
    start = System.nanoTime();
    try (ResultSet rows = s.executeQuery()) {
      while (rows.next()) {
        this.count++;
        for (int i = 0; i < (raw ? 1 : names.length); i++) {
          byte[] data = bytes(rows, i + 1);
          if (!raw) {
            give(at, length(names[i].length), flags);
            give(at, names[i], flags);
            give(at, length(data.length), flags);
          }
          give(at, data, flags);
        }
        if (s == read) break;
      }
    }
    end = System.nanoTime();
    int found = this.count;
    if (s == read) this.count = 0;
    return s == read && found == 0 ? NOT_FOUND : OK;
  }

  @SuppressWarnings("deprecation")
  private byte[] bytes(ResultSet rows, int column) throws SQLException {
    if (!text) {
      byte[] data = rows.getBytes(column);
      return data == null ? new byte[0] : data;
    }
    String data = rows.getString(column);
    byte[] out = new byte[data == null ? 0 : data.length()];
    if (data != null) data.getBytes(0, out.length, out, 0);
    return out;
  }
}
