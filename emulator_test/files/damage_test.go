package files_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/gopercolator/percolator/internal/formats"
	"github.com/gopercolator/percolator/internal/testing/fixture"
)

var (
	damages = flag.Int("files.damages", 0, "how many damaged files are read; 0: 8,000 of all cases, else 400")
	seed    = flag.Uint64("files.seed", 1, "of the damages")
)

// What reading a damaged file of some 100 KB may take.
const (
	mostHeap = 64 << 20
	mostTime = 20 * time.Second
)

// TestDamagedFiles changes a few bytes of files. No reading panics, takes more than its memory, or
// does not end. One without an error has the values that were written, unless pages were changed
// that have no checksum.
func TestDamagedFiles(t *testing.T) {
	n := *damages
	if n == 0 {
		n = fixture.Of(8000, 400)
	}
	lines := linesOf(600)
	type whole struct {
		form
		file   []byte
		bodies []span // of pages without checksums
	}
	var files []whole
	for _, f := range forms() {
		if !fixture.Sampled(fmt.Sprint(f)) && f.codec != "SNAPPY" {
			continue
		}
		file := f.file(t, lines)
		files = append(files, whole{f, file, bodies(t, file)})
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(mostHeap))
	dice := rand.New(rand.NewPCG(*seed, 0))
	refused, unharmed, unseen := 0, 0, 0
	for i := range n {
		f := files[dice.IntN(len(files))]
		damaged, places := bytes.Clone(f.file), []int{}
		for range 1 + dice.IntN(4) {
			at := dice.IntN(len(damaged))
			if dice.IntN(2) == 0 { // half of them in the metadata, of which there is less
				at = len(damaged) - 1 - dice.IntN(min(len(damaged), 8<<10))
			}
			damaged[at] = byte(dice.Uint32())
			places = append(places, at)
		}
		if dice.IntN(20) == 0 {
			damaged = damaged[:dice.IntN(len(damaged))]
		}
		got, err := readWithin(t, damaged)
		switch difference := same(got, lines); {
		case err != nil:
			refused++
		case difference == "":
			unharmed++
		case within(places, f.bodies):
			unseen++
		default:
			t.Errorf("damage %d of seed %d, of %v at %d: %s", i, *seed, f.form, places, difference)
		}
	}
	t.Logf("of %d damages %d are refused, %d change nothing, %d are in values without a checksum", n, refused, unharmed, unseen)
}

// readWithin reads a file in the memory and the time that it may take.
func readWithin(t *testing.T, file []byte) (rows []formats.Row, err error) {
	t.Helper()
	ended, stop := make(chan struct{}), make(chan uint64)
	go func() {
		most, sample := uint64(0), []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		for {
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64())
			select {
			case <-ended:
				stop <- most
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	late := time.AfterFunc(mostTime, func() { panic("a damaged file is read for too long") })
	rows, err = read(file)
	late.Stop()
	runtime.ReadMemStats(&after)
	close(ended)
	most := <-stop
	if allocated := after.TotalAlloc - before.TotalAlloc; most > before.HeapAlloc+mostHeap || allocated > 4*mostHeap {
		t.Errorf("the heap had %d bytes, of %d at the beginning, and %d were allocated", most, before.HeapAlloc, allocated)
	}
	return rows, err
}

// span is bytes of a file.
type span struct{ from, to int }

func within(places []int, spans []span) bool {
	for _, at := range places {
		for _, s := range spans {
			if at >= s.from && at < s.to {
				return true
			}
		}
	}
	return false
}

// bodies are the pages of a file that have no checksum, without their headers.
func bodies(t testing.TB, file []byte) (list []span) {
	t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)))
	fixture.Must(t, err)
	protocol := &thrift.CompactProtocol{}
	for _, g := range f.Metadata().RowGroups {
		for _, c := range g.Columns {
			at := c.MetaData.DataPageOffset
			if dict := c.MetaData.DictionaryPageOffset; dict > 0 {
				at = min(at, dict)
			}
			for end := at + c.MetaData.TotalCompressedSize; at < end; {
				r := protocol.NewReaderFromBytes(bytes.Clone(file[at:end]))
				var h format.PageHeader
				fixture.Must(t, thrift.NewDecoder(r).Decode(&h))
				from := at + int64(r.BytesRead())
				at = from + int64(h.CompressedPageSize)
				if h.CRC == 0 {
					list = append(list, span{int(from), int(at)})
				}
			}
		}
	}
	return list
}
