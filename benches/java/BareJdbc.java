import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.Random;

/**
 * The statements of the JDBC front in a bare loop: `URL create`, or `URL insert|read RECORDS BYTES SECONDS`, where insert goes
 * on until the time is over (0: until there are so many records). Nothing is timed but the whole; the line is JSON.
 */
public final class BareJdbc {
  private static String key(int n) {
    String digits = Integer.toString(n);
    return "user0000000000".substring(0, 14 - digits.length()) + digits;
  }

  public static void main(String[] args) throws Exception {
    try (Connection c = DriverManager.getConnection(args[0]); Statement s = c.createStatement()) {
      s.execute("CREATE TABLE IF NOT EXISTS taillight (id TEXT PRIMARY KEY, value BLOB)");
      if (args[1].equals("create")) return;
      int records = Integer.parseInt(args[2]);
      byte[] value = new byte[Integer.parseInt(args[3])];
      long most = Long.parseLong(args[4]) * 1_000_000_000L;
      boolean reads = args[1].equals("read");
      String sql = reads ? "SELECT value FROM taillight WHERE id = ?" : "INSERT INTO taillight (id, value) VALUES (?, ?)";
      Random random = new Random(7);
      random.nextBytes(value);
      long start = System.nanoTime();
      int n = 0;
      try (PreparedStatement one = c.prepareStatement(sql)) {
        while (most == 0 ? n < records : System.nanoTime() - start < most) {
          for (int i = 0; i < 100; i++, n++) {
            one.setString(1, key(reads ? random.nextInt(records) : n));
            if (!reads) {
              one.setBytes(2, value);
              one.executeUpdate();
              continue;
            }
            try (ResultSet rows = one.executeQuery()) {
              if (!rows.next() || rows.getBytes(1).length != value.length) throw new IllegalStateException("a record is missing");
            }
          }
        }
      }
      double seconds = (System.nanoTime() - start) / 1e9;
      System.out.println("{\"ios\": " + n + ", \"seconds\": " + seconds + ", \"iops\": " + n / seconds + "}");
    }
  }
}
