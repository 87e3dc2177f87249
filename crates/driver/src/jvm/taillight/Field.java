package taillight;

import java.util.Arrays;
import site.ycsb.ByteIterator;

/** One field to write: bytes of an array that is used again. */
final class Field extends ByteIterator {
  private byte[] bytes;
  private int at, from, to;

  Field set(byte[] bytes, int from, int length) {
    this.bytes = bytes;
    this.at = this.from = from;
    to = from + length;
    return this;
  }

  @Override public boolean hasNext() {
    return at < to;
  }

  @Override public byte nextByte() {
    return bytes[at++];
  }

  @Override public long bytesLeft() {
    return to - at;
  }

  @Override public void reset() {
    at = from;
  }

  @Override public byte[] toArray() {
    byte[] rest = Arrays.copyOfRange(bytes, at, to);
    at = to;
    return rest;
  }
}
