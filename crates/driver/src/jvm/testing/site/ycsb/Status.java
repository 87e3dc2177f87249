package site.ycsb;

/** As in {@link DB}. */
public class Status {
  public static final Status OK = new Status("OK", "");
  public static final Status ERROR = new Status("ERROR", "");
  public static final Status NOT_FOUND = new Status("NOT_FOUND", "");
  public static final Status NOT_IMPLEMENTED = new Status("NOT_IMPLEMENTED", "");
  public static final Status BATCHED_OK = new Status("BATCHED_OK", "");
  private final String name, description;

  public Status(String name, String description) {
    this.name = name;
    this.description = description;
  }

  public String getName() {
    return name;
  }

  public String getDescription() {
    return description;
  }

  public boolean isOk() {
    return this == OK || this == BATCHED_OK;
  }
}
