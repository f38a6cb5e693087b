package crawl

import (
	"bufio"
	"bytes"
	"cmp"
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

// source is a WARC file as a stream of records: the content of one gzip member after the other, or
// the file itself where it is not compressed. It always knows where in the file it is.
type source struct {
	ctx     context.Context
	in      *Input
	failure error // of reading the file, or of ctx; everything ends with it

	start      int64             // where in the file the member or the uncompressed part starts
	file       *io.SectionReader // the file from there on
	raw        *bufio.Reader     // of file
	compressed bool              // it is a member
	member     *gzip.Reader      // of raw
	passed     int64             // how many bytes of the content buf has taken
	buf        *bufio.Reader     // of the content
}

func newSource(ctx context.Context, in *Input) *source {
	return &source{
		ctx: ctx, in: in, member: new(gzip.Reader),
		raw: bufio.NewReaderSize(nil, bufferSize), buf: bufio.NewReaderSize(nil, bufferSize),
	}
}

// ReadAt reads the file. An error after some bytes comes back with the next read. The context is
// looked at here, so that nothing that reads goes on for long after it has ended.
func (s *source) ReadAt(p []byte, off int64) (int, error) {
	if s.failure = cmp.Or(s.failure, s.ctx.Err()); s.failure != nil {
		return 0, s.failure
	}
	n, err := s.in.file.ReadAt(p, off)
	s.in.advance(off + int64(n))
	if n > 0 {
		return n, nil
	}
	if !errors.Is(err, io.EOF) {
		s.failure = err
	}
	return 0, err
}

// content is what a source is at: a gzip member, decompressed, or the file as it is.
type content struct{ s *source }

func (c content) Read(p []byte) (n int, err error) {
	if c.s.compressed {
		n, err = c.s.member.Read(p)
	} else {
		n, err = c.s.raw.Read(p)
	}
	c.s.passed += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		err = c.s.damagedMember(err)
	}
	return n, err
}

// open goes to offset, where a gzip member starts or something that is not compressed.
func (s *source) open(offset int64) error {
	s.start, s.passed = offset, 0
	s.file = io.NewSectionReader(s, offset, s.in.total-offset)
	s.raw.Reset(s.file)
	s.buf.Reset(content{s})
	magic, _ := s.raw.Peek(len(gzipMagic))
	if s.compressed = bytes.Equal(magic, gzipMagic); !s.compressed {
		return s.failure
	}
	if err := s.member.Reset(s.raw); err != nil {
		return s.damagedMember(err)
	}
	s.member.Multistream(false)
	return nil
}

// memberError is damage in a gzip member: nothing more can be read from it.
type memberError struct{ error }

func (e *memberError) Unwrap() error { return e.error }

// errCutOff is the cause when a record or a gzip member simply ends.
var errCutOff = fmt.Errorf("it is cut off: %w", io.ErrUnexpectedEOF)

// damagedMember is what an error that ends the member means, unless the file could not be read.
func (s *source) damagedMember(err error) error {
	if s.failure != nil {
		return s.failure
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errCutOff
	}
	return &memberError{fmt.Errorf("damaged gzip member: %w", err)}
}

// place is a position in the content of the gzip member, or of the uncompressed part, that starts
// at start.
type place struct {
	start, pos int64
	compressed bool
}

// here is where the next byte of content is.
func (s *source) here() place {
	return place{s.start, s.passed - int64(s.buf.Buffered()), s.compressed}
}

// offset is where in the file the place is; in a gzip member, where that starts.
func (p place) offset() int64 {
	if p.compressed {
		return p.start
	}
	return p.start + p.pos
}

// end is where in the file the gzip member ends that has been read to its end.
func (s *source) end() int64 {
	read, _ := s.file.Seek(0, io.SeekCurrent) // asking where it is cannot fail
	return s.start + read - int64(s.raw.Buffered())
}

// nextMember goes on behind a gzip member that has been read to its end. The end of the file is
// io.EOF.
func (s *source) nextMember() error {
	if !s.compressed || s.end() >= s.in.total {
		return io.EOF
	}
	return s.open(s.end())
}

// more is called when a record goes on at the end of its gzip member. It is nil if the next member
// continues the record (some compressors begin a member every so many bytes). If another record
// begins there, the source stands before it.
func (s *source) more() error {
	if err := s.nextMember(); errors.Is(err, io.EOF) {
		return errCutOff
	} else if err != nil {
		return err
	}
	b, err := s.buf.Peek(len(recordMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if bytes.Equal(b, recordMagic) {
		return errCutOff
	}
	return nil
}
