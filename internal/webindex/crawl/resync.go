package crawl

import (
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

// resume goes to the next record that can be read behind d. It is false if there is none. An error
// is one of the file.
func (r *warcReader) resume(d *damage) (bool, error) {
	if d.placed {
		return true, nil
	}
	from := d.from
	if d.member >= 0 {
		found, err := r.resumeInMember(d)
		if found || err != nil {
			return found, err
		}
		from = max(r.end(), d.member+1)
		if r.broken {
			from = r.start + 1
		}
	}
	for {
		at, err := r.searchFile(from)
		if at < 0 || err != nil {
			return false, err
		}
		if err := r.open(at); err != nil && r.failure != nil {
			return false, r.failure
		} else if err != nil { // only looked like a gzip member
			from = at + 1
			continue
		}
		if r.gz == nil {
			return true, nil
		}
		found, err := r.searchMember()
		if found || err != nil {
			return found, err
		}
		from = r.end()
		if r.broken {
			from = at + 1
		}
	}
}

// resumeInMember searches the rest of the gzip member that d is in.
func (r *warcReader) resumeInMember(d *damage) (bool, error) {
	if r.start != d.member || r.gz == nil || d.from < r.pos && r.rewinds < maxRewinds {
		r.rewinds++
		if err := r.open(d.member); err != nil {
			r.broken = true
			return false, r.failure
		}
		if err := r.copyBlock(io.Discard, d.from); err != nil {
			r.broken = true
			return false, r.failure
		}
	}
	return r.searchMember()
}

// searchMember goes to the next line of the member that looks like the start of a record. If there
// is none, broken says whether the member ended in damage.
func (r *warcReader) searchMember() (bool, error) {
	r.broken = false
	lineStart := true
	for {
		if lineStart {
			if b, _ := r.peek(len(lineMagic)); bytes.Equal(b, lineMagic) {
				return true, nil
			}
		}
		_, err := r.line()
		lineStart = err == nil
		if err != nil && !errors.Is(err, errLineTooLong) {
			r.broken = !errors.Is(err, io.EOF)
			return false, r.failure
		}
	}
}

// searchFile returns where in the file, from the offset from on, something starts that may be a
// gzip member or, unless the file began with one, a record. It is -1 if there is nothing.
func (r *warcReader) searchFile(from int64) (int64, error) {
	const overlap = 32 // longer than what is searched for, and a line end before it
	if r.searched == nil {
		r.searched = make([]byte, bufferSize)
	}
	buf := r.searched
	for begin := max(from-1, 0); ; { // to see the line end before from
		n, err := r.readAt(buf, begin)
		if r.failure != nil {
			return -1, r.failure
		}
		first := 1 // byte 0 was looked at before, or is in front of from
		if begin == from {
			first = 0
		}
		if i := r.find(buf[:n], first); i >= 0 {
			return begin + int64(i), nil
		}
		if err != nil || begin+int64(n) >= r.in.total {
			return -1, nil
		}
		begin += int64(max(1, n-overlap))
	}
}

// headerStart is what begins a record for certain, also where the line end before it is damaged.
var headerStart = regexp.MustCompile(`^WARC/1\.[0-9]\r?\nWARC-`)

// find returns the first place in b, from the index first on, where a record or gzip member may
// start.
func (r *warcReader) find(b []byte, first int) int {
	for i := first; i < len(b); i++ {
		switch rest := b[i:]; {
		case bytes.HasPrefix(rest, gzipMagic):
			// The third byte is the method, always 8; the upper flags in the fourth are never set.
			if len(rest) > 3 && rest[2] == 8 && rest[3]&0xe0 == 0 {
				return i
			}
		case !r.gzipFile && bytes.HasPrefix(rest, lineMagic):
			if i == 0 || b[i-1] == '\n' || headerStart.Match(rest) {
				return i
			}
		}
	}
	return -1
}
