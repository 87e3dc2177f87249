package taillight;

import java.nio.ByteBuffer;
import site.ycsb.ByteIterator;

/** One field to write: bytes of a session's memory, which are the operation's until it ends. */
final class Field extends ByteIterator {
  private static final ByteBuffer NOTHING = ByteBuffer.allocate(0);

  final String name;
  /** Of this field alone: bindings may read fields in several threads. */
  private ByteBuffer bytes;
  private int at, from, to;

  Field(String name, ByteBuffer bytes) {
    this.name = name;
    this.bytes = bytes;
  }

  void set(int from, int length) {
    this.at = this.from = from;
    to = from + length;
  }

  /** The memory goes: who has kept the field finds nothing in it. */
  void end() {
    bytes = NOTHING;
  }

  @Override public boolean hasNext() {
    return at < to;
  }

  @Override public byte nextByte() {
    return bytes.get(at++);
  }

  @Override public long bytesLeft() {
    return to - at;
  }

  @Override public void reset() {
    at = from;
  }

  @Override public byte[] toArray() {
    byte[] rest = new byte[to - at];
    ((java.nio.Buffer) bytes).position(at);
    bytes.get(rest);
    at = to;
    return rest;
  }
}
