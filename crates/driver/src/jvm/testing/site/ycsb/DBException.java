package site.ycsb;

/** As in {@link DB}. */
public class DBException extends Exception {
  public DBException(String message) {
    super(message);
  }
}
