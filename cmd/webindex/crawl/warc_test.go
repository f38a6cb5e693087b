package crawl

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var testTime = time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC)

// page is the n-th response of the test files.
func page(n int) *Response {
	body := fmt.Sprintf("<title>Page %d</title>\n<p>%s", n, strings.Repeat(fmt.Sprintf("word%d ", n), 20*n))
	return &Response{
		URL: fmt.Sprintf("http://example.com/%d", n), Status: 200,
		Header: http.Header{"Content-Type": {"text/html"}, "X-Page": {fmt.Sprint(n)}}, Body: []byte(body),
	}
}

// testRecords are what a crawler writes for n pages: a warcinfo record, then a request and a
// response for each.
func testRecords(t *testing.T, n int) [][]byte {
	t.Helper()
	var records [][]byte
	record := func(write func(w *Writer) error) {
		var b bytes.Buffer
		if err := write(NewPlainWriter(&b)); err != nil {
			t.Fatal(err)
		}
		records = append(records, b.Bytes())
	}
	record(func(w *Writer) error {
		return w.Write(Record{Type: "warcinfo", Time: testTime, ContentType: "application/warc-fields", Block: []byte("software: test\r\n")})
	})
	for i := range n {
		p := page(i)
		record(func(w *Writer) error {
			return w.Write(Record{
				Type: "request", URL: p.URL, Time: testTime, ContentType: "application/http; msgtype=request",
				Block: fmt.Appendf(nil, "GET /%d HTTP/1.1\r\nHost: example.com\r\n\r\n", i),
			})
		})
		record(func(w *Writer) error { return w.WriteResponse(p, testTime) })
	}
	return records
}

// compressors are kept, because making one takes longer than what it does here.
var compressors = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

func compress(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	gz, ok := compressors.Get().(*gzip.Writer)
	if !ok {
		t.Fatal("no compressor")
	}
	defer compressors.Put(gz)
	gz.Reset(&out)
	if _, err := gz.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := gz.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// layouts are the ways to put records in a file. offsets are where the records start, or their gzip
// members.
var layouts = map[string]func(t *testing.T, records [][]byte) (file []byte, offsets []int64){
	"plain": func(_ *testing.T, records [][]byte) (file []byte, offsets []int64) {
		for _, r := range records {
			offsets = append(offsets, int64(len(file)))
			file = append(file, r...)
		}
		return file, offsets
	},
	"member per record": func(t *testing.T, records [][]byte) (file []byte, offsets []int64) {
		for _, r := range records {
			offsets = append(offsets, int64(len(file)))
			file = append(file, compress(t, r)...)
		}
		return file, offsets
	},
	"one member": func(t *testing.T, records [][]byte) (file []byte, offsets []int64) {
		return compress(t, bytes.Join(records, nil)), make([]int64, len(records))
	},
	"two members": func(t *testing.T, records [][]byte) (file []byte, offsets []int64) {
		half := len(records) / 2
		file = compress(t, bytes.Join(records[:half], nil))
		offsets = make([]int64, len(records))
		for i := half; i < len(records); i++ {
			offsets[i] = int64(len(file))
		}
		return append(file, compress(t, bytes.Join(records[half:], nil))...), offsets
	},
	"members of 100 bytes": func(t *testing.T, records [][]byte) (file []byte, offsets []int64) {
		var members []int64
		all := bytes.Join(records, nil)
		for i := 0; i < len(all); i += 100 {
			members = append(members, int64(len(file)))
			file = append(file, compress(t, all[i:min(i+100, len(all))])...)
		}
		at := 0
		for _, r := range records {
			offsets = append(offsets, members[at/100])
			at += len(r)
		}
		return file, offsets
	},
	"some compressed": func(t *testing.T, records [][]byte) (file []byte, offsets []int64) {
		for i, r := range records {
			offsets = append(offsets, int64(len(file)))
			if i%3 == 0 {
				r = compress(t, r)
			}
			file = append(file, r...)
		}
		return file, offsets
	},
}

// read collects what a sequence yields.
func read(seq iter.Seq2[*Response, error]) (responses []*Response, errs []error) {
	for resp, err := range seq {
		if err != nil {
			errs = append(errs, err)
		} else {
			responses = append(responses, resp)
		}
	}
	return responses, errs
}

func readBytes(t testing.TB, file []byte) ([]*Response, []error) {
	return read(ReadFrom(t.Context(), "test.warc", bytes.NewReader(file), int64(len(file))))
}

// pageNumbers returns the numbers of the pages in responses, which must be as they were written.
func pageNumbers(t *testing.T, responses []*Response) string {
	t.Helper()
	var numbers []string
	for _, resp := range responses {
		n := resp.Header.Get("X-Page")
		numbers = append(numbers, n)
		var i int
		if _, err := fmt.Sscan(n, &i); err != nil {
			t.Errorf("response of %s without a number", resp.URL)
		}
		if want := page(i); !bytes.Equal(resp.Body, want.Body) || resp.URL != want.URL || resp.Status != 200 {
			t.Errorf("page %d is %s, %d, %q", i, resp.URL, resp.Status, resp.Body)
		}
	}
	return strings.Join(numbers, " ")
}

func TestReadAllLayouts(t *testing.T) {
	t.Parallel()
	for name, layout := range layouts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, offsets := layout(t, testRecords(t, 5))
			responses, errs := readBytes(t, file)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			var want []*Response
			for i := range 5 {
				p := page(i)
				p.Source, p.Offset = "test.warc", offsets[2+2*i]
				want = append(want, p)
			}
			if diff := cmp.Diff(want, responses); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Wherever a file is cut off: what is yielded is what was written, and unless a record ends there
// an error says where the cut record starts.
func TestReadCutOffAnywhere(t *testing.T) {
	t.Parallel()
	for name, layout := range layouts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			step := 7 // through all places in the end, because records differ in length
			if name == "plain" || name == "member per record" {
				step = 1
			}
			file, offsets := layout(t, testRecords(t, 3))
			boundary := map[int]bool{len(file): true}
			for _, at := range offsets {
				boundary[int(at)] = true
			}
			for cut := 1; cut < len(file); cut += step {
				responses, errs := readBytes(t, file[:cut])
				if numbers := pageNumbers(t, responses); !strings.HasPrefix("0 1 2", numbers) {
					t.Fatalf("cut at %d: pages %s", cut, numbers)
				}
				// A record without its last empty lines is complete, and so is what a longer member
				// ends with.
				complete := boundary[cut] || name == "plain" && boundary[cut+len(file[cut:])-len(bytes.TrimLeft(file[cut:], "\r\n"))]
				switch {
				case len(errs) > 1:
					t.Fatalf("cut at %d: %v", cut, errs)
				case len(errs) == 0 && !complete && name != "members of 100 bytes" && name != "some compressed":
					t.Fatalf("cut at %d: no error", cut)
				case len(errs) == 1:
					var ie *InputError
					if !errors.As(errs[0], &ie) || ie.Path != "test.warc" || ie.Offset >= int64(cut) {
						t.Fatalf("cut at %d: %v", cut, errs[0])
					}
				}
			}
		})
	}
}

// Whatever single byte is changed, only the record that it is in may be lost or changed; with a
// member per record it is never changed, and the change is never overlooked.
func TestReadWithAnyByteChanged(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain", "member per record"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			records := testRecords(t, 3)
			file, offsets := layouts[name](t, records)
			ends := append(slices.Clone(offsets[1:]), int64(len(file)))
			original, _ := readBytes(t, file)
			record := 0
			for at := range file {
				if record+1 < len(offsets) && offsets[record+1] == int64(at) {
					record++
				}
				for _, flip := range []byte{1 << (at % 8)} {
					changed := bytes.Clone(file)
					changed[at] ^= flip
					responses, errs := readBytes(t, changed)
					byURL := make(map[int64]*Response)
					for _, resp := range responses {
						byURL[resp.Offset] = resp
					}
					for _, want := range original {
						got := byURL[want.Offset]
						if want.Offset == offsets[record] && (got == nil || name == "plain") {
							continue
						}
						if !reflect.DeepEqual(want, got) {
							t.Fatalf("byte %d ^ %#x, in record %d: the record at %d is %+v\n%v", at, flip, record, want.Offset, got, errs)
						}
					}
					// In the header of a gzip member some bytes mean nothing here (the time, the
					// system), and so do the unused bits in the first byte of the empty block
					// before checksum and length.
					meaningless := int64(at)-offsets[record] <= 9 || int64(at) == ends[record]-8-5
					if name == "member per record" && len(errs) == 0 && !meaningless {
						t.Fatalf("byte %d ^ %#x, in record %d (%d to %d): no error", at, flip, record, offsets[record], ends[record])
					}
					if len(errs) > 2 {
						t.Fatalf("byte %d ^ %#x, in record %d: %v", at, flip, record, errs)
					}
				}
			}
		})
	}
}

func TestReadGoesOnBehindDamage(t *testing.T) {
	t.Parallel()
	replaceLength := func(r []byte, delta int) []byte {
		head, rest, _ := bytes.Cut(r, []byte("\r\n\r\n"))
		i := bytes.LastIndex(head, []byte(" "))
		var n int
		if _, err := fmt.Sscan(string(head[i:]), &n); err != nil {
			t.Fatal(err)
		}
		return fmt.Appendf(nil, "%s %d\r\n\r\n%s", head[:i], n+delta, rest)
	}
	const response1 = 4 // the record of page 1
	damages := map[string]struct {
		change func(r []byte) []byte
		cause  string
	}{
		"length too large":      {func(r []byte) []byte { return replaceLength(r, 50) }, "Content-Length|cut off"},
		"length much too large": {func(r []byte) []byte { return replaceLength(r, 1<<40) }, "cut off"},
		"length too small":      {func(r []byte) []byte { return replaceLength(r, -5) }, "Content-Length"},
		"length reaches the next record's end": {
			func(r []byte) []byte { return replaceLength(r, len(testRecords(t, 3)[response1+1])) }, "match|cut off",
		},
		"no length": {func(r []byte) []byte {
			return bytes.Replace(r, []byte("Content-Length: "), []byte("Content-Length: -"), 1)
		}, "Content-Length"},
		"malformed header line": {func(r []byte) []byte { return bytes.Replace(r, []byte("WARC-Date:"), []byte("WARC-Date"), 1) }, "malformed line"},
		"malformed version":     {func(r []byte) []byte { return bytes.Replace(r, []byte("WARC/1.0"), []byte("WARC/x.0"), 1) }, "malformed version"},
		"damaged magic":         {func(r []byte) []byte { return bytes.Replace(r, []byte("WARC/1.0"), []byte("ARC/1.0"), 1) }, "no record starts here"},
		"endless header": {func(r []byte) []byte {
			return bytes.Replace(r, []byte("WARC-Date:"), []byte("X: "+strings.Repeat("x", MaxRecordHeader)+"\r\nY:"), 1)
		}, "longer than|too long"},
		"digest":            {func(r []byte) []byte { return bytes.Replace(r, []byte("word1"), []byte("wort1"), 1) }, "digest"},
		"cut in the block":  {func(r []byte) []byte { return r[:len(r)-50] }, "Content-Length|cut off"},
		"cut in the header": {func(r []byte) []byte { return r[:100] }, "header|malformed HTTP status line"},
		"no URL": {func(r []byte) []byte {
			return bytes.Replace(r, []byte("WARC-Target-URI:"), []byte("WARC-Target-URL:"), 1)
		}, "without WARC-Target-URI"},
	}
	for name, damage := range damages {
		for layoutName, layout := range layouts {
			t.Run(name+", "+layoutName, func(t *testing.T) {
				t.Parallel()
				records := testRecords(t, 4)
				_, offsets := layout(t, records)
				records[response1] = damage.change(records[response1])
				file, _ := layout(t, records)
				responses, errs := readBytes(t, file)
				got := pageNumbers(t, responses)
				if got != "0 2 3" && (layoutName != "members of 100 bytes" || !strings.HasPrefix(got, "0") || !strings.HasSuffix(got, "3")) {
					t.Errorf("pages %q, errors %v", got, errs)
				}
				if len(errs) == 0 {
					t.Fatal("no error")
				}
				var ie *InputError
				matched := false
				for _, cause := range strings.Split(damage.cause, "|") {
					matched = matched || strings.Contains(errs[0].Error(), cause)
				}
				if !errors.As(errs[0], &ie) || !matched {
					t.Errorf("got %v, want something about %q", errs[0], damage.cause)
				}
				// What stands behind a record is found there, or at the record whose length leads
				// there.
				if want := offsets[response1]; ie.Offset != want {
					t.Errorf("at %d, want %d: %v", ie.Offset, want, errs)
				}
				if !strings.HasPrefix(errs[0].Error(), fmt.Sprintf("test.warc: at byte %d: ", ie.Offset)) {
					t.Errorf("the message does not name the place: %v", errs[0])
				}
			})
		}
	}
}

// Bytes between records cost no record.
func TestReadGoesOnBehindGarbage(t *testing.T) {
	t.Parallel()
	const behind = 4 // the record of page 1
	for name, layout := range layouts {
		records := testRecords(t, 4)
		_, offsets := layout(t, records)
		want := offsets[behind] // of the gzip member, if it is in one
		if name == "plain" || name == "some compressed" {
			want += int64(len(records[behind]))
		}
		records[behind] = append(records[behind], "garbage\x00\x1f\x8b\x08\x00\r\n"...)
		file, _ := layout(t, records)
		responses, errs := readBytes(t, file)
		if got := pageNumbers(t, responses); got != "0 1 2 3" && name != "members of 100 bytes" {
			t.Errorf("%s: pages %q", name, got)
		}
		var ie *InputError
		if len(errs) != 1 || !errors.As(errs[0], &ie) || ie.Offset < want || name != "members of 100 bytes" && ie.Offset != want {
			t.Errorf("%s: errors %v, want one at %d", name, errs, want)
		}
	}
}

func TestReadGoesOnBehindADamagedMember(t *testing.T) {
	t.Parallel()
	records := testRecords(t, 4)
	_, offsets := layouts["member per record"](t, records)
	member := func(i int) []byte { return compress(t, records[i]) }
	for name, change := range map[string]func(m []byte) []byte{
		"its middle":             func(m []byte) []byte { copy(m[40:], "xxxxxxxxxxxxxxxxxxxx"); return m },
		"its checksum":           func(m []byte) []byte { m[len(m)-8] ^= 0xff; return m },
		"its length":             func(m []byte) []byte { m[len(m)-1] ^= 0xff; return m },
		"its magic":              func(m []byte) []byte { m[0] = 0; return m },
		"its method":             func(m []byte) []byte { m[2] = 7; return m },
		"its flags":              func(m []byte) []byte { m[3] = 0x1f; return m },
		"its end":                func(m []byte) []byte { return m[:len(m)-3] },
		"its second half":        func(m []byte) []byte { return m[:len(m)/2] },
		"almost all of it":       func(m []byte) []byte { return m[:5] },
		"its content, no record": func([]byte) []byte { return compress(t, []byte("this is\nnot a record\n")) },
		"zeros before it":        func(m []byte) []byte { return append(make([]byte, 1000), m...) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var file []byte
			for i := range records {
				m := member(i)
				if i == 4 {
					m = change(m)
				}
				file = append(file, m...)
			}
			responses, errs := readBytes(t, file)
			want := "0 2 3"
			if name == "zeros before it" {
				want = "0 1 2 3"
			}
			if got := pageNumbers(t, responses); got != want {
				t.Errorf("pages %q, want %q", got, want)
			}
			var ie *InputError
			if len(errs) != 1 || !errors.As(errs[0], &ie) || ie.Offset != offsets[4] {
				t.Errorf("errors %v, want one at %d", errs, offsets[4])
			}
		})
	}
}

func TestReadWhatIsNoWARC(t *testing.T) {
	t.Parallel()
	html := []byte("<html>\nThis is no WARC/1.0 file\n</html>\n")
	for name, c := range map[string]struct {
		file  []byte
		cause error
	}{
		"empty":                   {nil, ErrEmpty},
		"HTML":                    {html, ErrNotWARC},
		"one byte":                {[]byte("W"), ErrNotWARC},
		"only lines":              {[]byte("\r\n\n"), nil},
		"zeros":                   {make([]byte, 300_000), ErrNotWARC},
		"gzip of something else":  {compress(t, html), ErrNotWARC},
		"gzips of something else": {bytes.Repeat(compress(t, html), 50), ErrNotWARC},
		"the start of a gzip":     {[]byte{0x1f, 0x8b}, ErrNotWARC},
		"like many gzips":         {bytes.Repeat([]byte{0x1f, 0x8b, 8, 0}, 1000), ErrNotWARC},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			responses, errs := readBytes(t, c.file)
			if len(responses) > 0 {
				t.Errorf("%d responses", len(responses))
			}
			if c.cause == nil {
				if len(errs) > 0 {
					t.Error(errs)
				}
				return
			}
			var ie *InputError
			if len(errs) != 1 || !errors.Is(errs[0], c.cause) || !errors.As(errs[0], &ie) || ie.Offset != 0 {
				t.Errorf("got %v, want one error %v", errs, c.cause)
			}
		})
	}
}

func TestReadFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, _ := layouts["member per record"](t, testRecords(t, 2))
	path := filepath.Join(dir, "crawl.warc.gz")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	responses, errs := read(Read(t.Context(), path))
	if len(errs) > 0 || pageNumbers(t, responses) != "0 1" || responses[0].Source != path {
		t.Errorf("%d responses, errors %v", len(responses), errs)
	}

	absent := filepath.Join(dir, "absent")
	_, errs = read(Read(t.Context(), absent))
	if len(errs) != 1 || !errors.Is(errs[0], fs.ErrNotExist) || !strings.HasPrefix(errs[0].Error(), absent+": at byte 0: ") {
		t.Errorf("an absent file: %v", errs)
	}
	_, errs = read(Read(t.Context(), os.DevNull))
	if len(errs) != 1 || !errors.Is(errs[0], ErrNotRegular) {
		t.Errorf("a device: %v", errs)
	}
}

// failingReader fails from an offset on.
type failingReader struct {
	io.ReaderAt
	from int64
}

var errDisk = errors.New("input/output error")

func (r failingReader) ReadAt(p []byte, off int64) (int, error) {
	if off >= r.from {
		return 0, &fs.PathError{Op: "read", Path: "x", Err: errDisk}
	}
	return r.ReaderAt.ReadAt(p[:min(int64(len(p)), r.from-off)], off)
}

func TestReadEndsWhenTheFileCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, layout := range layouts {
		file, _ := layout(t, testRecords(t, 4))
		for from := 0; from < len(file); from += 29 {
			in := NewInput("disk", failingReader{bytes.NewReader(file), int64(from)}, int64(len(file)))
			responses, errs := read(in.Responses(t.Context()))
			if len(errs) == 0 || !errors.Is(errs[len(errs)-1], errDisk) || len(errs) > 2 {
				t.Fatalf("%s, from %d: %v", name, from, errs)
			}
			pageNumbers(t, responses)
		}
	}
}

func TestReadEndsWithTheContext(t *testing.T) {
	t.Parallel()
	file, _ := layouts["plain"](t, testRecords(t, 4))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	n := 0
	for resp, err := range ReadFrom(ctx, "x", bytes.NewReader(file), int64(len(file))) {
		if last = err; resp != nil {
			n++
		}
		cancel()
	}
	if n != 1 || !errors.Is(last, context.Canceled) {
		t.Errorf("%d responses, then %v", n, last)
	}
}

func TestReadStopsWhenTheCallerDoes(t *testing.T) {
	t.Parallel()
	for _, file := range [][]byte{[]byte("no WARC"), bytes.Repeat(compress(t, []byte("WARC/")), 3)} {
		for range ReadFrom(t.Context(), "x", bytes.NewReader(file), int64(len(file))) {
			break
		}
	}
	file, _ := layouts["plain"](t, testRecords(t, 4))
	for range ReadFrom(t.Context(), "x", bytes.NewReader(file), int64(len(file))) {
		break
	}
}

func TestOffsetIsProgress(t *testing.T) {
	t.Parallel()
	for name, layout := range layouts {
		file, _ := layout(t, testRecords(t, 12))
		file = append(file, "garbage"...)
		in := NewInput("x", bytes.NewReader(file), int64(len(file)))
		if in.Total() != int64(len(file)) || in.Offset() != 0 || in.Name() != "x" {
			t.Errorf("%s: %d of %d before reading", name, in.Offset(), in.Total())
		}
		last := int64(0)
		for range in.Responses(t.Context()) {
			if in.Offset() < last || in.Offset() == 0 {
				t.Errorf("%s: %d after %d", name, in.Offset(), last)
			}
			last = in.Offset()
		}
		if in.Offset() != in.Total() {
			t.Errorf("%s: %d of %d at the end", name, in.Offset(), in.Total())
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}
}

// bigReader is a file of head, size times x, and tail.
type bigReader struct {
	head, tail string
	size       int64
}

func (r bigReader) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for _, part := range []struct {
		text string
		size int64
	}{{r.head, int64(len(r.head))}, {bigText, r.size}, {r.tail, int64(len(r.tail))}} {
		for off < part.size && n < len(p) {
			at := off % int64(len(part.text))
			c := copy(p[n:], part.text[at:min(int64(len(part.text)), at+part.size-off)])
			n, off = n+c, off+int64(c)
		}
		off -= part.size
	}
	return n, nil
}

var bigText = strings.Repeat("x", 1<<16)

// This test does not run in parallel with others, because it counts what is allocated.
func TestReadSkipsALargePageWithoutKeepingIt(t *testing.T) { //nolint:paralleltest // see above
	const size = 200 << 20
	http := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
	r := bigReader{
		head: fmt.Sprintf("WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://example.com/big\r\nContent-Length: %d\r\n\r\n%s",
			size+len(http), http),
		size: size,
		tail: "\r\n\r\n" + string(testRecords(t, 2)[4]),
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	responses, errs := read(ReadFrom(t.Context(), "big.warc", r, int64(len(r.head)+len(r.tail))+size))
	runtime.ReadMemStats(&after)
	if got := pageNumbers(t, responses); got != "1" {
		t.Errorf("pages %q", got)
	}
	var skipped *SkippedError
	if len(errs) != 1 || !errors.As(errs[0], &skipped) {
		t.Fatalf("errors %v", errs)
	}
	want := SkippedError{
		URL: "http://example.com/big", Status: 200, ContentType: "text/html", Size: size, Source: "big.warc",
	}
	if *skipped != want {
		t.Errorf("got %+v, want %+v", *skipped, want)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20 {
		t.Errorf("%d bytes were allocated", n)
	}
}

func TestReadSkipsPagesOverTheLimit(t *testing.T) {
	t.Parallel()
	big := func(n int) *Response {
		return &Response{URL: fmt.Sprintf("http://example.com/%d", n), Status: 200, Header: http.Header{}, Body: bytes.Repeat([]byte("y"), n)}
	}
	var file bytes.Buffer
	w := NewPlainWriter(&file)
	for _, n := range []int{MaxPage, MaxPage + 1, MaxPage + 2<<20, 10} {
		if err := w.WriteResponse(big(n), testTime); err != nil {
			t.Fatal(err)
		}
	}
	bomb := compress(t, make([]byte, MaxPage+1))
	if err := w.Write(Record{
		Type: "response", URL: "http://example.com/bomb", Time: testTime, ContentType: "application/http",
		Block: append([]byte("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"), bomb...),
	}); err != nil {
		t.Fatal(err)
	}
	responses, errs := readBytes(t, file.Bytes())
	if len(responses) != 2 || len(responses[0].Body) != MaxPage || len(responses[1].Body) != 10 {
		t.Errorf("%d responses", len(responses))
	}
	var got []string
	for _, err := range errs {
		var skipped *SkippedError
		if !errors.As(err, &skipped) {
			t.Fatal(err)
		}
		got = append(got, skipped.URL[len("http://example.com/"):])
		if skipped.Status != 200 || skipped.Size <= MaxPage || !strings.Contains(err.Error(), skipped.URL) || skipped.Source != "test.warc" {
			t.Errorf("size %d: %v", skipped.Size, err)
		}
	}
	if want := fmt.Sprintf("%d %d bomb", MaxPage+1, MaxPage+2<<20); strings.Join(got, " ") != want {
		t.Errorf("skipped %v, want %s", got, want)
	}
}

// What wget --warc-file writes: angle brackets around URLs, a redirect, robots.txt, and records of
// its own at the end.
func TestReadWgetLayout(t *testing.T) {
	t.Parallel()
	const head = "WARC/1.0\r\nWARC-Type: %s\r\nWARC-Record-ID: <urn:uuid:5f83517c-c529-446b-8e52-d930d5b66c3e>\r\n" +
		"WARC-Target-URI: <%s>\r\nWARC-Date: 2025-03-01T00:00:00Z\r\nWARC-IP-Address: 127.0.0.1\r\n" +
		"WARC-Block-Digest: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n"
	const digest = "sha1:HNMQC3WR5YT322EINIFRWN6PXJW5DUN4"
	page := "HTTP/1.1 200 OK\r\nAccept-Ranges: bytes\r\nContent-Length: 69\r\nContent-Type: text/html; charset=utf-8\r\n" +
		"Last-Modified: Sat, 21 Nov 2026 00:09:05 GMT\r\nDate: Sat, 21 Nov 2026 00:09:06 GMT\r\n\r\n" +
		"<html><title>A</title><a href=sub/b.html>b</a><a href=/missing>m</a>\n"
	var file []byte
	record := func(kind, url, digest, contentType, block string) {
		file = append(file, compress(t, fmt.Appendf(nil, head, kind, url, digest, contentType, len(block), block))...)
	}
	record("request", "http://127.0.0.1:8000/", "", "application/http;msgtype=request", "GET / HTTP/1.1\r\n\r\n")
	record("response", "http://127.0.0.1:8000/index.html", "", "application/http;msgtype=response",
		"HTTP/1.1 301 Moved Permanently\r\nLocation: ./\r\nContent-Length: 0\r\n\r\n")
	record("response", "http://127.0.0.1:8000/", digest, "application/http;msgtype=response", page)
	record("revisit", "http://127.0.0.1:8000/again", "", "application/http;msgtype=response", "HTTP/1.1 200 OK\r\n\r\n")
	record("metadata", "metadata://gnu.org/software/wget/warc/MANIFEST.txt", "", "text/plain", "<urn:uuid:1>\n")
	record("resource", "metadata://gnu.org/software/wget/warc/wget.log", "", "text/plain", "log\n")
	record("response", "dns:example.com", "", "text/dns", "20250301 example.com. A 192.0.2.1\n")
	record("resource", "HTTP://example.com/file", "", "text/html", "<p>a resource")

	responses, errs := readBytes(t, file)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var got []string
	for _, r := range responses {
		got = append(got, fmt.Sprintf("%d %s %s %d", r.Status, r.URL, r.Header.Get("Content-Type"), len(r.Body)))
	}
	want := []string{
		"301 http://127.0.0.1:8000/index.html  0",
		"200 http://127.0.0.1:8000/ text/html; charset=utf-8 69",
		"200 HTTP://example.com/file text/html 13",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDigestsAreVerified(t *testing.T) {
	t.Parallel()
	// printf abc | md5sum, sha1sum, sha256sum
	const sha1Hex = "a9993e364706816aba3e25717850c26c9cd0d89d"
	for digest, want := range map[string]error{
		"": nil, "sha1:": ErrDigest, "crc32:352441c2": nil, "md5:900150983cd24fb0d6963f7d28e17f72": nil,
		"sha1:" + sha1Hex: nil, "SHA-1:" + strings.ToUpper(sha1Hex): nil, "sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5": nil,
		"sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad": nil,
		"sha1:" + sha1Hex[:39] + "e": ErrDigest, "md5:" + sha1Hex: ErrDigest,
	} {
		rec := &record{header: map[string][]string{"Warc-Block-Digest": {digest}}, block: []byte("abc")}
		if err := rec.verify(); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", digest, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	var plain, compressed bytes.Buffer
	for _, w := range []*Writer{NewPlainWriter(&plain), NewWriter(&compressed)} {
		for i := range 2 {
			if err := w.WriteResponse(page(i), testTime); err != nil {
				f.Fatal(err)
			}
		}
	}
	f.Add(plain.Bytes())
	f.Add(compressed.Bytes())
	f.Add(compress(f, plain.Bytes()))
	f.Add([]byte("WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 99\r\n\r\nWARC/1.0\n\nWARC/1.1\nWARC-Type: x\nContent-Length:0\n\n"))
	f.Add([]byte("WARC/\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		damaged := slices.Concat(file, []byte("\r\n\r\n"), plain.Bytes())
		for _, f := range [][]byte{file, damaged, slices.Concat(file, compressed.Bytes())} {
			responses, errs := readBytes(t, f)
			last := int64(-1)
			for _, resp := range responses {
				if resp.Offset < last || resp.URL == "" || len(resp.Body) > MaxPage {
					t.Errorf("%s at %d, after %d", resp.URL, resp.Offset, last)
				}
				last = resp.Offset
			}
			if len(errs) > len(f)+1 {
				t.Errorf("%d errors in %d bytes", len(errs), len(f))
			}
			for _, err := range errs {
				var ie *InputError
				var se *SkippedError
				if !errors.As(err, &ie) && !errors.As(err, &se) {
					t.Errorf("unexpected error: %v", err)
				}
			}
		}
	})
}
