package crawl

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
)

// bufferSize is how much of a file is read at a time.
const bufferSize = 64 << 10

var (
	gzipMagic   = []byte{0x1f, 0x8b}
	recordMagic = []byte("WARC/")
)

// errLineTooLong is the cause when a header has a line that cannot be one.
var errLineTooLong = errors.New("a line is too long")

// source is a WARC file as a stream of records: the content of one gzip member after the other, or
// the file itself where it is not compressed. It always knows where in the file it is.
type source struct {
	ctx context.Context
	in  *Input

	start int64         // where in the file the member or the uncompressed part starts
	pos   int64         // how many bytes of it were consumed, after decompression
	raw   *bufio.Reader // the file
	buf   *bufio.Reader // what is read: raw, or what gz makes of it
	gz    *gzip.Reader  // nil: not compressed

	spareGz  *gzip.Reader // for the next member
	spareBuf *bufio.Reader

	rawOff  int64 // where in the file raw reads next
	failure error // of reading the file itself; everything ends with it
}

func newSource(ctx context.Context, in *Input) *source {
	s := &source{ctx: ctx, in: in}
	s.raw = bufio.NewReaderSize(rawReader{s}, bufferSize)
	return s
}

// rawReader reads the file of a source.
type rawReader struct{ s *source }

// Read looks at the context as well, so that nothing that reads can go on for long after it has
// ended.
func (r rawReader) Read(p []byte) (int, error) {
	s := r.s
	n, err := s.readAt(p, s.rawOff)
	s.rawOff += int64(n)
	return n, err
}

// readAt fills p from the file, or as much of it as the file has; the end of the file is io.EOF
// with 0 bytes.
func (s *source) readAt(p []byte, off int64) (int, error) {
	if err := s.ctx.Err(); err != nil {
		s.failure = err
		return 0, err
	}
	p = p[:max(0, min(int64(len(p)), s.in.total-off))]
	if len(p) == 0 {
		return 0, io.EOF
	}
	n, err := s.in.file.ReadAt(p, off)
	s.in.advance(off + int64(n))
	if n > 0 || errors.Is(err, io.EOF) { // an error after some bytes comes back with the next read
		if n > 0 {
			err = nil
		}
		return n, err
	}
	s.failure = err
	return 0, err
}

// open goes to offset, where a gzip member starts or something that is not compressed.
func (s *source) open(offset int64) error {
	s.start, s.pos, s.rawOff = offset, 0, offset
	s.raw.Reset(rawReader{s})
	s.gz, s.buf = nil, s.raw
	if magic, _ := s.raw.Peek(len(gzipMagic)); !bytes.Equal(magic, gzipMagic) {
		return s.failure
	}
	if s.spareGz == nil {
		s.spareGz, s.spareBuf = new(gzip.Reader), bufio.NewReaderSize(nil, bufferSize)
	}
	if err := s.spareGz.Reset(s.raw); err != nil {
		return fmt.Errorf("damaged gzip member: %w", cutOff(err))
	}
	s.spareGz.Multistream(false)
	s.spareBuf.Reset(s.spareGz)
	s.gz, s.buf = s.spareGz, s.spareBuf
	return nil
}

// offset is where in the file the next byte is; in a gzip member, where that starts.
func (s *source) offset() int64 {
	if s.gz != nil {
		return s.start
	}
	return s.start + s.pos
}

// end is where in the file the gzip member ends that has been read to its end.
func (s *source) end() int64 { return s.rawOff - int64(s.raw.Buffered()) }

// peek returns the next n bytes or, with an error, as many as there are in this member.
func (s *source) peek(n int) ([]byte, error) {
	b, err := s.buf.Peek(n)
	return b, s.cause(err)
}

// skipByte goes over a byte that peek has shown.
func (s *source) skipByte() {
	n, _ := s.buf.Discard(1)
	s.pos += int64(n)
}

// read reads into p what is left of the member; its end is io.EOF.
func (s *source) read(p []byte) (int, error) {
	n, err := s.buf.Read(p)
	s.pos += int64(n)
	return n, s.cause(err)
}

// line returns the next line with its line end, at most bufferSize bytes. The bytes are valid until
// the next read. If the member ends before the line does, it returns what there is and io.EOF.
func (s *source) line() ([]byte, error) {
	b, err := s.buf.ReadSlice('\n')
	s.pos += int64(len(b))
	if errors.Is(err, bufio.ErrBufferFull) {
		err = errLineTooLong
	}
	return b, s.cause(err)
}

// cause tells damage in the gzip member from the end of it.
func (s *source) cause(err error) error {
	switch {
	case err == nil || errors.Is(err, io.EOF) || errors.Is(err, errLineTooLong):
		return err
	case s.failure != nil:
		return s.failure
	case s.gz == nil:
		return err
	}
	return &memberError{fmt.Errorf("damaged gzip member: %w", cutOff(err))}
}

// cutOff names the damage of a gzip stream that simply ends.
func cutOff(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("it is cut off: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// memberError is damage in a gzip member: nothing more can be read from it.
type memberError struct{ error }

func (e *memberError) Unwrap() error { return e.error }

// nextMember goes on behind a gzip member that has been read to its end. It is false at the end of
// the file.
func (s *source) nextMember() (bool, error) {
	if s.gz == nil {
		return false, nil
	}
	end := s.end()
	if end >= s.in.total {
		return false, nil
	}
	if err := s.open(end); err != nil {
		return false, &memberError{err}
	}
	return true, nil
}

// more is called when a record goes on at the end of its gzip member. It is true if the next member
// continues the record (some compressors begin a member every so many bytes). If another record
// begins there, the source stands before it.
func (s *source) more() (bool, error) {
	ok, err := s.nextMember()
	if !ok || err != nil {
		return false, err
	}
	b, err := s.peek(len(recordMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return !bytes.Equal(b, recordMagic), nil
}
