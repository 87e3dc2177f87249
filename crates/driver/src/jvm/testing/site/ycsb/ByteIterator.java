package site.ycsb;

import java.util.Iterator;

/** As in {@link DB}. */
public abstract class ByteIterator implements Iterator<Byte> {
  @Override public abstract boolean hasNext();

  public abstract byte nextByte();

  public abstract long bytesLeft();

  public void reset() {
    throw new UnsupportedOperationException();
  }

  @Override public Byte next() {
    return nextByte();
  }

  public byte[] toArray() {
    byte[] out = new byte[(int) bytesLeft()];
    for (int i = 0; i < out.length; i++) out[i] = nextByte();
    return out;
  }
}
