package crawl

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"regexp"
)

// maxRewinds is how often a gzip member is decompressed once more to search for a record in what
// was already read.
const maxRewinds = 100

// lineMagic is what a line must start with to be taken for the start of a record behind damage.
var lineMagic = []byte("WARC/1.")

// resume goes to the next record that can be read from a place on. It is false if there is none.
func (r *warcReader) resume(from place) bool {
	next := from.offset()
	if from.compressed {
		err := r.rewind(from)
		if err == nil {
			err = r.searchMember()
		}
		if err == nil {
			return true
		}
		next = r.behind(err)
	}
	for {
		at := r.searchFile(next)
		if at < 0 {
			return false
		}
		err := r.open(at)
		if err == nil && r.compressed {
			err = r.searchMember()
		}
		if err == nil {
			return true
		}
		next = r.behind(err)
	}
}

// rewind goes to a place in a gzip member, or stays behind it in the same member if that was done
// too often.
func (r *warcReader) rewind(to place) error {
	if r.start != to.start || to.pos < r.here().pos && r.rewinds < maxRewinds {
		r.rewinds++
		if err := r.open(to.start); err != nil {
			return err
		}
	}
	_, err := io.CopyN(io.Discard, r.buf, max(0, to.pos-r.here().pos))
	return err
}

// searchMember goes to the next line of the member that looks like the start of a record. The end
// of the member is io.EOF.
func (r *warcReader) searchMember() error {
	lineStart := true
	for {
		if lineStart {
			if b, _ := r.buf.Peek(len(lineMagic)); bytes.Equal(b, lineMagic) {
				return nil
			}
		}
		_, err := r.buf.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		lineStart = err == nil
	}
}

// behind is where in the file to go on after err has ended the search in a gzip member. If that is
// damaged, or only looked like one, anything in it may be the start of another.
func (r *warcReader) behind(err error) int64 {
	if errors.Is(err, io.EOF) {
		return r.end()
	}
	return r.start + 1
}

// searchFile returns where in the file, from the offset from on, something starts that may be a
// gzip member or, unless the file began with one, a record. It is -1 if there is nothing.
func (r *warcReader) searchFile(from int64) int64 {
	const overlap = 32 // longer than what is searched for, and a line end before it
	begin := from - 1  // to see the line end before from
	r.raw.Reset(io.NewSectionReader(r, begin, r.in.total-begin))
	for {
		b, err := r.raw.Peek(bufferSize)
		if i := r.find(b); i >= 0 {
			return begin + int64(i)
		}
		if err != nil {
			return -1
		}
		n, _ := r.raw.Discard(len(b) - overlap) // all of it is buffered
		begin += int64(n)
	}
}

// headerStart is what begins a record for certain, also where the line end before it is damaged.
var headerStart = regexp.MustCompile(`^WARC/1\.[0-9]\r?\nWARC-`)

// find returns the first place in b, behind its first byte, where a record or gzip member may
// start.
func (r *warcReader) find(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch rest := b[i:]; {
		case bytes.HasPrefix(rest, gzipMagic):
			// The third byte is the method, always 8; the upper flags in the fourth are never set.
			if len(rest) > 3 && rest[2] == 8 && rest[3]&0xe0 == 0 {
				return i
			}
		case !r.gzipFile && bytes.HasPrefix(rest, lineMagic):
			if b[i-1] == '\n' || headerStart.Match(rest) {
				return i
			}
		}
	}
	return -1
}
