package crawl

import (
	"bufio"
	"bytes"
	"crypto/md5"  //nolint:gosec // one of the digests that archives state
	"crypto/sha1" //nolint:gosec // the usual one
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"regexp"
	"strconv"
	"strings"
)

// maxBlock is the largest block that is read: a page, the head of its response, and what chunks add
// to it.
const maxBlock = MaxPage + 1<<20

// record is a WARC record (ISO 28500).
type record struct {
	offset int64 // in the file
	header textproto.MIMEHeader
	length int64  // of the block
	block  []byte // as much of it as was kept

	member   int64 // the gzip member in which the block starts
	blockPos int64 // and where in it
}

// damage is a part of a file that cannot be read.
type damage struct {
	at  int64 // where the damaged record starts
	err error
	// How to go on. If placed, the next record is where the source stands. Otherwise the search for it
	// begins at from: a position in the content of the gzip member that starts at member, or, if there
	// is no such member, in the file.
	placed bool
	member int64 // -1: none
	from   int64
}

func (d *damage) Error() string { return d.err.Error() }

// damaged makes err, met after the first bytes of the record at at, a damage.
func (s *source) damaged(at int64, err error) error {
	if s.failure != nil {
		return s.failure
	}
	d := &damage{at: at, err: err, member: -1, from: at + 1}
	var member *memberError
	if s.gz != nil && !errors.As(err, &member) {
		d.member, d.from = s.start, s.pos
	}
	return d
}

// seekRecord goes to the start of the next record, which may stand directly before it, after empty
// lines, or in the next gzip member. The end of the file is io.EOF.
func (s *source) seekRecord() error {
	for {
		b, err := s.peek(1)
		switch {
		case errors.Is(err, io.EOF):
			at := s.end()
			if ok, err := s.nextMember(); err != nil {
				return s.damaged(at, err)
			} else if !ok {
				return io.EOF
			}
		case err != nil:
			return s.damaged(s.offset(), err)
		case b[0] == '\r' || b[0] == '\n':
			s.skipByte()
		default:
			return s.expectRecord()
		}
	}
}

// expectRecord makes sure that the next bytes begin a record.
func (s *source) expectRecord() error {
	b, err := s.peek(len(recordMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return s.damaged(s.offset(), err)
	}
	if s.gz == nil && bytes.HasPrefix(b, gzipMagic) {
		at := s.offset()
		if err := s.open(at); err != nil {
			return s.damaged(at, &memberError{err})
		}
		return s.seekRecord()
	}
	if !bytes.Equal(b, recordMagic) {
		return s.damaged(s.offset(), errors.New("no record starts here"))
	}
	return nil
}

var versionLine = regexp.MustCompile(`^WARC/[0-9]+\.[0-9]+\r?\n$`)

// readHeader reads the record that starts here up to its block.
func (s *source) readHeader() (*record, error) {
	rec := &record{offset: s.offset()}
	head, err := s.headerBytes()
	if err != nil {
		return nil, s.damaged(rec.offset, fmt.Errorf("record header: %w", err))
	}
	version, fields, _ := bytes.Cut(head, []byte("\n"))
	if !versionLine.Match(append(bytes.Clone(version), '\n')) {
		return nil, s.damaged(rec.offset, errors.New("record header: malformed version"))
	}
	rec.header, err = textproto.NewReader(bufio.NewReader(bytes.NewReader(fields))).ReadMIMEHeader()
	if err != nil {
		return nil, s.damaged(rec.offset, fmt.Errorf("record header: %w", headerError(err)))
	}
	for name := range rec.header {
		if strings.Contains(name, " ") { // ReadMIMEHeader lets that pass
			return nil, s.damaged(rec.offset, errors.New("record header: malformed line"))
		}
	}
	length, err := strconv.ParseUint(rec.header.Get("Content-Length"), 10, 63)
	if err != nil || rec.header.Get("WARC-Type") == "" {
		return nil, s.damaged(rec.offset, errors.New("record header: no valid Content-Length or WARC-Type"))
	}
	rec.length, rec.member, rec.blockPos = int64(length), s.start, s.pos
	return rec, nil
}

// headerError leaves out the line that is malformed: it may be long or not printable.
func headerError(err error) error {
	var pe textproto.ProtocolError
	if errors.As(err, &pe) {
		return errors.New("malformed line")
	}
	return err
}

// headerBytes returns the lines up to and with an empty one.
func (s *source) headerBytes() ([]byte, error) {
	var head []byte
	lineStart := 0
	for {
		b, err := s.line()
		head = append(head, b...)
		if len(head) > MaxRecordHeader {
			return nil, fmt.Errorf("longer than %d bytes", MaxRecordHeader)
		}
		if errors.Is(err, io.EOF) {
			if ok, err := s.more(); err != nil {
				return nil, err
			} else if !ok {
				return nil, fmt.Errorf("it is cut off: %w", io.ErrUnexpectedEOF)
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if line := head[lineStart:]; len(line) <= 2 && len(bytes.Trim(line, "\r\n")) == 0 {
			return head, nil
		}
		lineStart = len(head)
	}
}

// trailer is what stands between a block and the next record.
const trailer = "\r\n\r\n"

// readBlock reads the block of rec and keeps up to limit bytes of it. Then it looks behind the
// block, so that rec is known to be undamaged: an end that is not where the header says, and a gzip
// member with a wrong checksum, are damage. If all of the block was kept, it may also be that it
// does not match its digest.
func (s *source) readBlock(rec *record, limit int64) error {
	if s.gz == nil && rec.length > s.in.total-s.offset() {
		return s.blockDamaged(rec, fmt.Errorf("record of %d bytes is cut off: %w", rec.length, io.ErrUnexpectedEOF))
	}
	kept := &prefix{limit: min(limit, rec.length)}
	if err := s.copyBlock(kept, rec.length); err != nil {
		return s.blockDamaged(rec, err)
	}
	if err := s.readTrailer(); err != nil {
		return s.blockDamaged(rec, err)
	}
	rec.block = kept.bytes
	if int64(len(rec.block)) < rec.length {
		return nil
	}
	return rec.verify()
}

// prefix keeps the first limit bytes that are written to it.
type prefix struct {
	limit int64
	bytes []byte
}

func (p *prefix) Write(b []byte) (int, error) {
	if p.bytes == nil {
		p.bytes = make([]byte, 0, p.limit)
	}
	p.bytes = append(p.bytes, b[:min(int64(len(b)), p.limit-int64(len(p.bytes)))]...)
	return len(b), nil
}

func (s *source) copyBlock(w io.Writer, length int64) error {
	buf := make([]byte, min(length, bufferSize))
	for left := length; left > 0; {
		n, err := s.read(buf[:min(left, int64(len(buf)))])
		left -= int64(n)
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			ok, err := s.more()
			if err != nil {
				return err
			}
			if !ok {
				return fmt.Errorf("record of %d bytes is cut off after %d: %w", length, length-left, io.ErrUnexpectedEOF)
			}
		} else if err != nil {
			return err
		}
	}
	return nil
}

// readTrailer goes over the two line ends behind a block. What follows is not its concern if they
// are there; where they are not quite, a record, a gzip member or nothing must follow.
func (s *source) readTrailer() error {
	var ends []byte
	for {
		// At the end of a member, this is also where its checksum is verified.
		b, err := s.peek(1)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(ends) == len(trailer) || b[0] != '\r' && b[0] != '\n' {
			break
		}
		ends = append(ends, b[0])
		s.skipByte()
	}
	b, err := s.peek(len(recordMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if string(ends) == trailer || bytes.Equal(b, recordMagic) || s.gz == nil && bytes.HasPrefix(b, gzipMagic) {
		return nil
	}
	return errors.New("the record does not end where its Content-Length says")
}

// blockDamaged makes err, met in or behind the block of rec, a damage. The next record is searched
// for from the start of the block: if the length in the header is too large, the block has
// swallowed it.
func (s *source) blockDamaged(rec *record, err error) error {
	if s.failure != nil {
		return s.failure
	}
	d := &damage{at: rec.offset, err: err, member: -1}
	var member *memberError
	switch {
	case errors.As(err, &member):
		d.from = s.start + 1
	case s.gz == nil:
		d.from = rec.member + rec.blockPos
	default:
		d.member, d.from = rec.member, rec.blockPos
		next, _ := s.peek(len(recordMagic))
		d.placed = s.start != rec.member && bytes.Equal(next, recordMagic) // see more
	}
	return d
}

// verify compares the block with the digest in the header, if that is one of the usual kinds.
func (rec *record) verify() error {
	algorithm, value, _ := strings.Cut(rec.header.Get("WARC-Block-Digest"), ":")
	var sum []byte
	switch strings.ReplaceAll(strings.ToLower(algorithm), "-", "") {
	case "md5":
		digest := md5.Sum(rec.block) //nolint:gosec // see the import
		sum = digest[:]
	case "sha1":
		digest := sha1.Sum(rec.block) //nolint:gosec // see the import
		sum = digest[:]
	case "sha256":
		digest := sha256.Sum256(rec.block)
		sum = digest[:]
	default:
		return nil
	}
	value = strings.TrimRight(value, "=")
	if strings.EqualFold(value, hex.EncodeToString(sum)) ||
		strings.EqualFold(value, base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum)) {
		return nil
	}
	return ErrDigest
}
