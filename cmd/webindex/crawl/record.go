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
	"hash"
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
	begin  place
	header textproto.MIMEHeader
	length int64  // of the block
	block  []byte // as much of it as was kept
}

// damage is a part of a file that cannot be read.
type damage struct {
	at  place // where the damaged record begins
	err error
	// from is where to search for the next record. That may begin anywhere behind the first byte of
	// the damaged one: if the length in a header is too large, the block has swallowed it.
	from place
}

func (d *damage) Error() string { return d.err.Error() }

// damaged makes err, met while the record that begins at at was read, a damage.
func (s *source) damaged(at place, err error) error {
	if s.failure != nil {
		return s.failure
	}
	from := at
	from.pos++
	var member *memberError
	if errors.As(err, &member) {
		from = place{start: s.start + 1}
	}
	return &damage{at, err, from}
}

// seekRecord goes to the start of the next record, which may stand directly before it, after empty
// lines, or in the next gzip member. The end of the file is io.EOF.
func (s *source) seekRecord() error {
	for {
		b, err := s.buf.Peek(len(recordMagic))
		switch {
		case len(b) == 0 && errors.Is(err, io.EOF):
			if err = s.nextMember(); errors.Is(err, io.EOF) {
				return io.EOF
			}
		case len(b) == 0: // err says why
		case isLineEnd(b[0]):
			_, err = s.buf.Discard(1)
		case bytes.Equal(b, recordMagic):
			return nil
		case !s.compressed && bytes.HasPrefix(b, gzipMagic):
			err = s.open(s.here().offset())
		case err == nil || errors.Is(err, io.EOF):
			err = errors.New("no record starts here")
		}
		if err != nil {
			return s.damaged(s.here(), err)
		}
	}
}

func isLineEnd(c byte) bool { return c == '\r' || c == '\n' }

// readHeader reads the record that starts here up to its block.
func (s *source) readHeader() (*record, error) {
	rec := &record{begin: s.here()}
	head, err := s.headerBytes()
	if err == nil {
		err = rec.parseHeader(head)
	}
	if err != nil {
		return nil, s.damaged(rec.begin, fmt.Errorf("record header: %w", err))
	}
	return rec, nil
}

// headerBytes returns the lines up to and with an empty one.
func (s *source) headerBytes() ([]byte, error) {
	var head []byte
	for {
		b, err := s.buf.ReadSlice('\n')
		head = append(head, b...)
		if len(head) > MaxRecordHeader {
			return nil, fmt.Errorf("longer than %d bytes", MaxRecordHeader)
		}
		switch {
		case err == nil:
			if bytes.HasSuffix(head, []byte("\n\r\n")) || bytes.HasSuffix(head, []byte("\n\n")) {
				return head, nil
			}
		case errors.Is(err, io.EOF):
			if err := s.more(); err != nil {
				return nil, err
			}
		case !errors.Is(err, bufio.ErrBufferFull): // a line may be longer than the buffer
			return nil, err
		}
	}
}

var versionLine = regexp.MustCompile(`^WARC/[0-9]+\.[0-9]+$`)

func (rec *record) parseHeader(head []byte) error {
	version, header, err := parseHead(head)
	if !versionLine.MatchString(version) {
		return errors.New("malformed version")
	}
	if err != nil {
		return err
	}
	for name := range header {
		if strings.Contains(name, " ") { // ReadMIMEHeader lets that pass
			return errMalformedLine
		}
	}
	length, err := strconv.ParseUint(header.Get("Content-Length"), 10, 63)
	if err != nil || header.Get("WARC-Type") == "" {
		return errors.New("no valid Content-Length or WARC-Type")
	}
	rec.header, rec.length = header, int64(length)
	return nil
}

// errMalformedLine leaves out the line, which may be long or not printable.
var errMalformedLine = errors.New("malformed line")

// parseHead divides the head of a record or of an HTTP response into its first line and the fields
// below. The line is valid even if the fields are not.
func parseHead(head []byte) (first string, fields textproto.MIMEHeader, err error) {
	line, rest, _ := bytes.Cut(head, []byte("\n"))
	fields, err = textproto.NewReader(bufio.NewReader(bytes.NewReader(rest))).ReadMIMEHeader()
	var malformed textproto.ProtocolError
	if errors.As(err, &malformed) {
		err = errMalformedLine
	}
	return string(bytes.TrimRight(line, "\r")), fields, err
}

// readBlock reads the block of rec and keeps up to limit bytes of it. Then it looks behind the
// block, so that rec is known to be undamaged: an end that is not where the header says, and a gzip
// member with a wrong checksum, are damage. If all of the block was kept, it may also be that it
// does not match its digest.
func (s *source) readBlock(rec *record, limit int64) error {
	err := s.copyBlock(rec, min(limit, rec.length))
	if err == nil {
		err = s.readTrailer()
	}
	if err != nil {
		return s.damaged(rec.begin, fmt.Errorf("record of %d bytes: %w", rec.length, err))
	}
	if int64(len(rec.block)) < rec.length {
		return nil
	}
	return rec.verify()
}

// copyBlock keeps the first bytes of the block and goes over the others.
func (s *source) copyBlock(rec *record, keep int64) error {
	if !s.compressed && rec.length > s.in.total-s.here().offset() {
		return errCutOff
	}
	rec.block = make([]byte, keep)
	if _, err := io.ReadFull(block{s}, rec.block); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, block{s}, rec.length-keep)
	return err
}

// block reads what belongs to a record, in one gzip member or several.
type block struct{ s *source }

func (b block) Read(p []byte) (int, error) {
	n, err := b.s.buf.Read(p)
	if errors.Is(err, io.EOF) {
		err = b.s.more()
	}
	return n, err
}

// trailer is what stands between a block and the next record.
const trailer = "\r\n\r\n"

// readTrailer goes over the two line ends behind a block. What follows is not its concern if they
// are there; where they are not quite, a record, a gzip member or nothing must follow.
func (s *source) readTrailer() error {
	// At the end of a member, this is also where its checksum is verified.
	b, err := s.buf.Peek(len(trailer) + len(recordMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	n := 0
	for n < min(len(b), len(trailer)) && isLineEnd(b[n]) {
		n++
	}
	rest := b[n:]
	if len(rest) > 0 && string(b[:n]) != trailer && !bytes.HasPrefix(rest, recordMagic) && (s.compressed || !bytes.HasPrefix(rest, gzipMagic)) {
		return errors.New("it does not end where its Content-Length says")
	}
	_, err = s.buf.Discard(n)
	return err
}

// digests are the usual kinds.
var digests = map[string]func() hash.Hash{"md5": md5.New, "sha1": sha1.New, "sha256": sha256.New}

// verify compares the block with the digest in the header, if that is of a kind that is known.
func (rec *record) verify() error {
	algorithm, value, _ := strings.Cut(rec.header.Get("WARC-Block-Digest"), ":")
	newHash, known := digests[strings.ReplaceAll(strings.ToLower(algorithm), "-", "")]
	if !known {
		return nil
	}
	h := newHash()
	h.Write(rec.block) //nolint:errcheck // a hash takes everything
	sum := h.Sum(nil)
	value = strings.TrimRight(value, "=")
	if strings.EqualFold(value, hex.EncodeToString(sum)) ||
		strings.EqualFold(value, base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum)) {
		return nil
	}
	return ErrDigest
}
