package emulator

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"cloud.google.com/go/bigtable/bttest"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

func withLimits(rows, bytes int) Option {
	return func(s *settings) { s.pages = pageLimits{rows: rows, bytes: bytes} }
}

// readAll returns the answer to req: a line for each cell and each report of a row that the filter
// kept back.
func readAll(t rapid.TB, client btpb.BigtableClient, req *btpb.ReadRowsRequest, flags *btpb.FeatureFlags) (lines []string, err error) {
	b, err := proto.Marshal(flags)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, featuresHeader, base64.URLEncoding.EncodeToString(b))
	stream, err := client.ReadRows(ctx, proto.CloneOf(req))
	if err != nil {
		t.Fatal(err)
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return lines, err
		}
		if len(m.LastScannedRowKey) > 0 {
			lines = append(lines, fmt.Sprintf("scanned %s", m.LastScannedRowKey))
		}
		for _, c := range m.Chunks {
			lines = append(lines, fmt.Sprintf("%s %s:%s@%d=%s commit=%v", c.RowKey, c.FamilyName.GetValue(), c.Qualifier.GetValue(),
				c.TimestampMicros, c.Value, c.GetCommitRow()))
		}
	}
}

// Whatever is asked for, the paged answer equals the bare emulator's.
func TestPagesEqualTheWhole(t *testing.T) {
	t.Parallel()
	bare, err := bttest.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bare.Close)
	paged := start(t, withLimits(3, 900))
	var clients []btpb.BigtableClient
	const rows = 60
	for _, addr := range []string{bare.Addr, paged.Addr()} {
		opts := Connect(addr)
		createTable(t, opts, "t", "f", "g")
		tbl := openClient(t, opts).Open("t")
		fill(t, tbl, rows, []byte("value"))
		for i := 0; i < rows; i += 5 {
			m := bigtable.NewMutation()
			m.Set("g", "big", 1000, []byte(strings.Repeat("x", 400)))
			if err := tbl.Apply(t.Context(), rowKey(i), m); err != nil {
				t.Fatal(err)
			}
		}
		clients = append(clients, btpb.NewBigtableClient(dial(t, addr)))
	}

	key := rapid.Custom(func(t *rapid.T) []byte {
		return []byte(rowKey(rapid.IntRange(-1, rows).Draw(t, "row")) + rapid.SampledFrom([]string{"", "\x00", "x"}).Draw(t, "suffix"))
	})
	family := func(re string) *btpb.RowFilter {
		return &btpb.RowFilter{Filter: &btpb.RowFilter_FamilyNameRegexFilter{FamilyNameRegexFilter: re}}
	}
	filters := []*btpb.RowFilter{
		nil, family("g"), family("none|nobody"),
		{Filter: &btpb.RowFilter_CellsPerColumnLimitFilter{CellsPerColumnLimitFilter: 1}},
		{Filter: &btpb.RowFilter_CellsPerColumnLimitFilter{CellsPerColumnLimitFilter: -1}}, // refused
	}
	rapid.Check(t, func(t *rapid.T) {
		req := &btpb.ReadRowsRequest{
			TableName: fullName(rapid.SampledFrom([]string{"t", "t", "t", "t", "missing"}).Draw(t, "table")),
			Filter:    rapid.SampledFrom(filters).Draw(t, "filter"),
			RowsLimit: rapid.SampledFrom([]int64{0, 0, 1, 3, 7, rows}).Draw(t, "limit"),
			Reversed:  rapid.Bool().Draw(t, "reversed"),
			Rows:      &btpb.RowSet{RowKeys: rapid.SliceOfN(key, 0, 12).Draw(t, "keys")},
		}
		for range rapid.IntRange(0, 3).Draw(t, "ranges") {
			r := new(btpb.RowRange)
			switch from := key.Draw(t, "from"); rapid.IntRange(0, 2).Draw(t, "start") {
			case 0:
				r.StartKey = &btpb.RowRange_StartKeyClosed{StartKeyClosed: from}
			case 1:
				r.StartKey = &btpb.RowRange_StartKeyOpen{StartKeyOpen: from}
			}
			switch to := key.Draw(t, "to"); rapid.IntRange(0, 2).Draw(t, "end") {
			case 0:
				r.EndKey = &btpb.RowRange_EndKeyClosed{EndKeyClosed: to}
			case 1:
				r.EndKey = &btpb.RowRange_EndKeyOpen{EndKeyOpen: to}
			}
			req.Rows.RowRanges = append(req.Rows.RowRanges, r)
		}
		tb, done := paged.guard.tables.use(req.TableName)
		var splits []string
		for _, k := range rapid.SliceOfN(key, 0, 10).Draw(t, "splits") {
			splits = append(splits, string(k))
		}
		slices.Sort(splits)
		splits = slices.Compact(splits)
		tb.splits.Store(&splits)
		done()

		flags := &btpb.FeatureFlags{ReverseScans: true}
		want, wantErr := readAll(t, clients[0], req, flags)
		got, gotErr := readAll(t, clients[1], req, flags)
		if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
			t.Fatalf("error %v, want %v", gotErr, wantErr)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// Rows that the filter keeps back fill pages as well, and only a client that asked for it hears of
// them: once a page is enough.
func TestSparseScanIsPagedToo(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	pages := 0
	s := start(t, withLimits(10, 1<<20), func(st *settings) {
		st.holding = func(*btpb.ReadRowsRequest) {
			mu.Lock()
			defer mu.Unlock()
			pages++
		}
	})
	createTable(t, s.ClientOptions(), "t", "f", "g")
	fill(t, openClient(t, s.ClientOptions()).Open("t"), 15, []byte("v"))
	client := btpb.NewBigtableClient(dial(t, s.Addr()))
	req := &btpb.ReadRowsRequest{
		TableName: fullName("t"),
		Filter:    &btpb.RowFilter{Filter: &btpb.RowFilter_FamilyNameRegexFilter{FamilyNameRegexFilter: "g"}},
	}
	got, err := readAll(t, client, req, &btpb.FeatureFlags{})
	if err != nil || len(got) != 0 {
		t.Errorf("got %v, %v, want nothing", got, err)
	}
	if pages != 2 {
		t.Errorf("%d pages, want 2", pages)
	}
	got, err = readAll(t, client, req, &btpb.FeatureFlags{LastScannedRowResponses: true})
	want := []string{"scanned " + rowKey(9), "scanned " + rowKey(14)}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

// The emulator gathers every row of the range that a page asks for. Over a whole scan that must
// stay proportional to the table, or a scan of a large table takes quadratic time.
func TestLargeScanIsNotQuadratic(t *testing.T) {
	t.Parallel()
	const rows = 20_000
	var mu sync.Mutex
	gathered := 0
	keys := make([]string, rows)
	for i := range keys {
		keys[i] = rowKey(i)
	}
	s := start(t, func(st *settings) {
		st.holding = func(r *btpb.ReadRowsRequest) {
			mu.Lock()
			defer mu.Unlock()
			for _, rr := range r.Rows.RowRanges {
				from, _ := slices.BinarySearch(keys, string(rr.GetStartKeyClosed()))
				to := len(keys)
				if end := rr.GetEndKeyOpen(); len(end) > 0 {
					to, _ = slices.BinarySearch(keys, string(end))
				}
				gathered += to - from
			}
		}
	})
	createTable(t, s.ClientOptions(), "t", "f")
	tbl := openClient(t, s.ClientOptions()).Open("t")
	fill(t, tbl, rows, []byte("v"))
	for _, scan := range []struct {
		name  string
		atMax int
	}{
		{"first", 4 * rows}, // twice everything before it is cut, then window by window
		{"second", 3 * rows},
	} {
		gathered = 0
		err := tbl.ReadRows(testContext(t), bigtable.InfiniteRange(""), func(bigtable.Row) bool { return true },
			bigtable.RowFilter(bigtable.BlockAllFilter())) // every row is looked at, none is sent
		if err != nil {
			t.Fatal(err)
		}
		if gathered < rows || gathered > scan.atMax {
			t.Errorf("%s scan: %d rows gathered for a table of %d", scan.name, gathered, rows)
		}
	}
}

func TestRowSetCutKeepsEveryKeyInOneWindow(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		rs := rowSet{ranges: []interval{{rowKey(rng.IntN(50)), rowKey(50 + rng.IntN(50))}}}
		for i := range rng.IntN(20) {
			rs.keys = append(rs.keys, rowKey(i*7))
		}
		var splits []string
		for i := range rng.IntN(10) {
			splits = append(splits, rowKey(i*11))
		}
		windows := rs.cut(everything, splits, 4)
		for i, w := range windows {
			if i > 0 && windows[i-1].end != w.start {
				t.Fatalf("windows %q leave a gap", windows)
			}
			if part, _ := rs.clip(w); len(part.GetRowKeys()) > 4 {
				t.Fatalf("a window of %d keys", len(part.GetRowKeys()))
			}
		}
		if windows[0].start != "" || windows[len(windows)-1].end != "" {
			t.Fatalf("windows %q do not cover everything", windows)
		}
	}
}

func TestRowSetPartsAreWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var rs rowSet
		asked := map[string]bool{}
		for range rng.IntN(5) {
			from := rng.IntN(50)
			v := interval{rowKey(from), rowKey(from + 1 + rng.IntN(30))}
			if rng.IntN(9) == 0 {
				v.end = ""
			}
			rs.ranges = append(rs.ranges, v)
		}
		for i := range rng.IntN(5) {
			rs.keys = append(rs.keys, rowKey(i*17))
		}
		var splits []string
		for i := range rng.IntN(10) {
			splits = append(splits, rowKey(i*11))
		}
		for i := range 100 {
			key := interval{rowKey(i), successor(rowKey(i))}
			if _, ok := rs.clip(key); ok {
				asked[key.start] = true
			}
		}
		before := interval{}
		for i, v := range rs.parts(splits) {
			if v.empty() || i > 0 && (before.end == "" || v.start < before.end) {
				t.Fatalf("%q and %q of %+v", before, v, rs)
			}
			for _, split := range splits {
				if v.contains(split) {
					t.Fatalf("%q is in two tablets, cut at %q", v, split)
				}
			}
			for i := range 100 {
				if _, ok := v.intersect(interval{rowKey(i), successor(rowKey(i))}); ok {
					if !asked[rowKey(i)] {
						t.Fatalf("%q of %q, which was not asked for", rowKey(i), rs)
					}
					delete(asked, rowKey(i))
				}
			}
			before = v
		}
		if len(asked) > 0 {
			t.Fatalf("%v are left of %+v", asked, rs)
		}
	}
}
