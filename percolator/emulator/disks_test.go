package emulator

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// asking is a context of a client that asks for progress.
func asking(t *testing.T, ctx context.Context) context.Context {
	t.Helper()
	return able(t, ctx, &btpb.FeatureFlags{LastScannedRowResponses: true, ReverseScans: true})
}

// able is a context of a client that can do what the flags say.
func able(t *testing.T, ctx context.Context, flags *btpb.FeatureFlags) context.Context {
	t.Helper()
	b, err := proto.Marshal(flags)
	if err != nil {
		t.Fatal(err)
	}
	return metadata.AppendToOutgoingContext(ctx, featuresHeader, base64.URLEncoding.EncodeToString(b))
}

// notThere lets no cell through.
func notThere() *btpb.RowFilter {
	return &btpb.RowFilter{Filter: &btpb.RowFilter_ColumnQualifierRegexFilter{ColumnQualifierRegexFilter: []byte("none")}}
}

// follow reads to the end and returns the rows and the progress in between, in order.
func follow(ctx context.Context, c btpb.BigtableClient, req *btpb.ReadRowsRequest) (rows, scanned []string, err error) {
	stream, err := c.ReadRows(ctx, req)
	if err != nil {
		return nil, nil, err
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			if err.Error() == "EOF" {
				err = nil
			}
			return rows, scanned, err
		}
		if len(m.LastScannedRowKey) > 0 {
			scanned = append(scanned, string(m.LastScannedRowKey))
		}
		for _, chunk := range m.Chunks {
			rows = append(rows, string(chunk.RowKey))
		}
	}
}

// onDisks is an emulator with the table "t" on disks and so many rows of 1,000 bytes.
func onDisks(t *testing.T, d *Disks, rows int) btpb.BigtableClient {
	t.Helper()
	s := start(t, OnDisks(d))
	createTable(t, s.ClientOptions(), "t", "f")
	c := btpb.NewBigtableClient(dial(t, s.Addr()))
	var entries []*btpb.MutateRowsRequest_Entry
	for i := range rows {
		entries = append(entries, &btpb.MutateRowsRequest_Entry{RowKey: fmt.Appendf(nil, "r%04d", i),
			Mutations: []*btpb.Mutation{setCell("f", "q", 1000, make([]byte, 1000-chunkOverhead-6))}})
	}
	if len(entries) > 0 {
		if _, err := mutateRows(testContext(t), c, entries...); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// TestReadsPayForWhatTheyPassOver: whatever the filter lets through.
func TestReadsPayForWhatTheyPassOver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		req  *btpb.ReadRowsRequest
		want int64
	}{
		"all":              {&btpb.ReadRowsRequest{}, 100_000},
		"nothing passes":   {&btpb.ReadRowsRequest{Filter: notThere()}, 100_000},
		"a range":          {&btpb.ReadRowsRequest{Filter: notThere(), Rows: &btpb.RowSet{RowRanges: []*btpb.RowRange{interval{"r0010", "r0030"}.wire()}}}, 20_000},
		"two ranges":       {&btpb.ReadRowsRequest{Filter: notThere(), Rows: &btpb.RowSet{RowRanges: []*btpb.RowRange{interval{"r0090", "r0095"}.wire(), interval{"r0010", "r0030"}.wire()}}}, 25_000},
		"ranges meet":      {&btpb.ReadRowsRequest{Filter: notThere(), Rows: &btpb.RowSet{RowRanges: []*btpb.RowRange{interval{"r0020", "r0040"}.wire(), interval{"r0010", "r0030"}.wire(), interval{"r0012", "r0015"}.wire()}}}, 30_000},
		"a key beside":     {&btpb.ReadRowsRequest{Filter: notThere(), Rows: &btpb.RowSet{RowKeys: [][]byte{[]byte("r0015"), []byte("r0090")}, RowRanges: []*btpb.RowRange{interval{"r0010", "r0030"}.wire()}}}, 21_000},
		"clean data aside": {&btpb.ReadRowsRequest{Filter: notThere(), Rows: &btpb.RowSet{RowRanges: []*btpb.RowRange{interval{"r0090", "r0095"}.wire(), interval{"t", ""}.wire()}}}, 5_000},
		"two keys":         {&btpb.ReadRowsRequest{Filter: notThere(), Rows: &btpb.RowSet{RowKeys: [][]byte{[]byte("r0001"), []byte("r0099"), []byte("none")}}}, 2_000},
		"the first row":    {&btpb.ReadRowsRequest{RowsLimit: 1}, 1_000},
		"to the 60th":      {&btpb.ReadRowsRequest{RowsLimit: 10, Rows: &btpb.RowSet{RowRanges: []*btpb.RowRange{interval{"r0050", ""}.wire()}}}, 10_000},
		"the last row":     {&btpb.ReadRowsRequest{RowsLimit: 1, Reversed: true, Rows: &btpb.RowSet{RowRanges: []*btpb.RowRange{interval{"", "s"}.wire()}}}, 1_000},
		"down to the 90th": {&btpb.ReadRowsRequest{RowsLimit: 9, Reversed: true, Rows: &btpb.RowSet{RowRanges: []*btpb.RowRange{interval{"r0010", "r0030"}.wire(), interval{"r0095", "r0099"}.wire()}}}, 9_000},
		"down two ranges":  {&btpb.ReadRowsRequest{Filter: notThere(), Reversed: true, Rows: &btpb.RowSet{RowRanges: []*btpb.RowRange{interval{"r0090", "r0095"}.wire(), interval{"r0010", "r0030"}.wire()}}}, 25_000},
		"down clean data":  {&btpb.ReadRowsRequest{Filter: notThere(), Reversed: true, Rows: &btpb.RowSet{RowRanges: []*btpb.RowRange{interval{"s\x80", ""}.wire()}}}, 1 << 39},
		"clean data":       {&btpb.ReadRowsRequest{Filter: notThere(), Rows: &btpb.RowSet{RowRanges: []*btpb.RowRange{interval{"s", "t"}.wire()}}}, 1 << 40},
		"half of it":       {&btpb.ReadRowsRequest{Filter: notThere(), Rows: &btpb.RowSet{RowRanges: []*btpb.RowRange{interval{"s\x80", "t"}.wire()}}}, 1 << 39},
		"beyond the table": {&btpb.ReadRowsRequest{Rows: &btpb.RowSet{RowRanges: []*btpb.RowRange{interval{"z", ""}.wire()}}}, 0},
	} {
		d := &Disks{Clean: []Clean{{"t", "s", "t", 1 << 40}}}
		client := onDisks(t, d, 100)
		c.req.TableName = fullName("t")
		if name == "all" || name == "nothing passes" {
			c.req.Rows = &btpb.RowSet{RowRanges: []*btpb.RowRange{interval{"", "s"}.wire()}}
		}
		if _, _, err := follow(able(t, testContext(t), &btpb.FeatureFlags{ReverseScans: true}), client, c.req); err != nil {
			t.Fatal(err)
		}
		if got := d.Passed("t"); math.Abs(float64(got-c.want)) > float64(c.want)/1e6 || d.Reads("t") != 1 {
			t.Errorf("%s: passed over %d bytes with %d reads, want %d with 1", name, got, d.Reads("t"), c.want)
		}
	}
}

// TestProgressOfALongRead: a read that its deadline cuts has named how far it came, and reading on
// from there comes to the end.
func TestProgressOfALongRead(t *testing.T) {
	t.Parallel()
	const whole = 1 << 40
	d := &Disks{Speed: whole, Clean: []Clean{{"t", "", "", whole}}} // a second for the table
	c := onDisks(t, d, 0)
	from, requests := "", 0
	for {
		ctx, cancel := context.WithTimeout(testContext(t), 300*time.Millisecond)
		_, scanned, err := follow(asking(t, ctx), c, &btpb.ReadRowsRequest{TableName: fullName("t"), Rows: &btpb.RowSet{RowRanges: []*btpb.RowRange{interval{from, ""}.wire()}}})
		cancel()
		requests++
		if err == nil {
			break
		}
		if status.Code(err) != codes.DeadlineExceeded {
			t.Fatal(err)
		}
		for _, k := range scanned {
			if k <= from {
				t.Fatalf("progress from %q to %q", from, k)
			}
			from = k
		}
		if requests > 100 {
			t.Fatal("it does not come to the end")
		}
	}
	if n := d.Passed("t"); requests < 3 || n < whole || n > whole*5/4 {
		t.Errorf("%d requests passed over %d bytes of %d", requests, n, whole)
	}
	ctx, cancel := context.WithTimeout(testContext(t), 100*time.Millisecond)
	defer cancel()
	if _, scanned, _ := follow(ctx, c, &btpb.ReadRowsRequest{TableName: fullName("t")}); len(scanned) > 0 {
		t.Errorf("progress for a client that does not ask for it: %q", scanned)
	}
}

// TestReadsThatPassOverMuchAreCutOff: a read of ranges that has passed over so many bytes is cut
// off, and has named the last row that its filter kept back; reading on from there comes to the
// end. Reads of keys go on.
func TestReadsThatPassOverMuchAreCutOff(t *testing.T) {
	t.Parallel()
	d := &Disks{Reach: 30_000, Clean: []Clean{{"t", "s", "t", 90_000}}}
	c := onDisks(t, d, 100)
	ctx := asking(t, testContext(t))
	from, requests, last := "", 0, ""
	for more := true; more; requests++ {
		rows, scanned, err := follow(ctx, c, &btpb.ReadRowsRequest{TableName: fullName("t"),
			Filter: &btpb.RowFilter{Filter: &btpb.RowFilter_RowKeyRegexFilter{RowKeyRegexFilter: []byte("r0029|r0070")}},
			Rows:   &btpb.RowSet{RowRanges: []*btpb.RowRange{interval{from, ""}.wire()}}})
		if more = err != nil; more && (status.Code(err) != codes.Canceled || len(scanned) == 0 || requests > 10) {
			t.Fatalf("request %d from %q: %v, %v", requests, from, scanned, err)
		}
		if !slices.IsSorted(scanned) || slices.Contains(scanned, "r0029") || slices.Contains(scanned, "r0070") {
			t.Errorf("progress %q", scanned)
		}
		for _, key := range slices.Concat(rows, scanned) {
			from = max(from, successor(key))
		}
		for _, key := range rows {
			last += key + " "
		}
	}
	if n := d.Passed("t"); last != "r0029 r0070 " || requests != 7 || n < 189_990 || n > 200_000 {
		t.Errorf("%d requests passed over %d bytes and found %s", requests, n, last)
	}
	keys := new(btpb.RowSet)
	for i := range 100 {
		keys.RowKeys = append(keys.RowKeys, fmt.Appendf(nil, "r%04d", i))
	}
	if rows, _, err := follow(ctx, c, &btpb.ReadRowsRequest{TableName: fullName("t"), Rows: keys}); err != nil || len(rows) != 100 {
		t.Errorf("%d keys, %v", len(rows), err)
	}
}

// TestReachOfAReversedRead: the same from the end to the beginning.
func TestReachOfAReversedRead(t *testing.T) {
	t.Parallel()
	d := &Disks{Reach: 30_000, Clean: []Clean{{"t", "s", "t", 90_000}}, Bounds: map[string][]string{"t": {"r0050", "s\x80"}}}
	c := onDisks(t, d, 100)
	ctx := asking(t, testContext(t))
	to, requests, found := "", 0, ""
	for more := true; more; requests++ {
		rows, scanned, err := follow(ctx, c, &btpb.ReadRowsRequest{TableName: fullName("t"), Reversed: true,
			Filter: &btpb.RowFilter{Filter: &btpb.RowFilter_RowKeyRegexFilter{RowKeyRegexFilter: []byte("r0029|r0070")}},
			Rows:   &btpb.RowSet{RowRanges: []*btpb.RowRange{interval{"", to}.wire()}}})
		if more = err != nil; more && (status.Code(err) != codes.Canceled || len(scanned) == 0 || requests > 10) {
			t.Fatalf("request %d down from %q: %v, %v", requests, to, scanned, err)
		}
		if !slices.IsSortedFunc(scanned, func(a, b string) int { return strings.Compare(b, a) }) || slices.Contains(scanned, "r0029") || slices.Contains(scanned, "r0070") {
			t.Errorf("progress %q", scanned)
		}
		for _, key := range slices.Concat(rows, scanned) {
			if to == "" || key < to {
				to = key
			}
		}
		for _, key := range rows {
			found += key + " "
		}
	}
	if n := d.Passed("t"); found != "r0070 r0029 " || requests != 7 || n < 189_990 || n > 200_000 {
		t.Errorf("%d requests passed over %d bytes and found %s", requests, n, found)
	}
}

// TestProgressOverStoredRows: a read that its deadline cuts has named the rows that its filter has
// kept back until then.
func TestProgressOverStoredRows(t *testing.T) {
	t.Parallel()
	c := onDisks(t, &Disks{Speed: 1_000_000}, 1000) // a second for the table
	var scanned []string
	for whole := testContext(t); len(scanned) == 0 && whole.Err() == nil; { // a slow machine may begin too late
		ctx, cancel := context.WithTimeout(asking(t, whole), 300*time.Millisecond)
		rows, named, err := follow(ctx, c, &btpb.ReadRowsRequest{TableName: fullName("t"), Filter: notThere()})
		if cancel(); status.Code(err) != codes.DeadlineExceeded || len(rows) > 0 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		scanned = named
	}
	if len(scanned) == 0 {
		t.Error("no request has named its progress")
	}
}

// TestTabletsServeOneReadAtATime: reads of one tablet wait for each other, those of two do not.
func TestTabletsServeOneReadAtATime(t *testing.T) {
	t.Parallel()
	d := &Disks{Bounds: map[string][]string{"t": {"m"}}}
	c := onDisks(t, d, 0)
	ctx := testContext(t)
	leave, err := d.enter(ctx, "t", "a", false)
	if err != nil {
		t.Fatal(err)
	}
	read := func(key string) error {
		_, _, err := follow(ctx, c, &btpb.ReadRowsRequest{TableName: fullName("t"), Rows: &btpb.RowSet{RowKeys: [][]byte{[]byte(key)}}})
		return err
	}
	var g errgroup.Group
	done := make(chan struct{})
	g.Go(func() error { defer close(done); return read("b") })
	if err := read("n"); err != nil {
		t.Error(err)
	}
	eventually(t, "the read has arrived", func() bool { return d.Reads("t") == 2 })
	select {
	case <-done:
		t.Error("a tablet serves two reads at once")
	default:
	}
	leave()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// TestTabletsOnTheMove: requests for the tablet fail for a moment, others do not; Google's client
// repeats all but those that are conditional.
func TestTabletsOnTheMove(t *testing.T) {
	t.Parallel()
	d := &Disks{Bounds: map[string][]string{"t": {"m"}}}
	s := start(t, OnDisks(d))
	createTable(t, s.ClientOptions(), "t", "f")
	tbl := openClient(t, s.ClientOptions()).Open("t")
	ctx := testContext(t)
	set := func(key string, condition bool) error {
		m := bigtable.NewMutation()
		m.Set("f", "q", 1000, nil)
		if condition {
			m = bigtable.NewCondMutation(bigtable.PassAllFilter(), nil, m)
		}
		return tbl.Apply(ctx, key, m)
	}
	d.Move("t", "z", 1)
	if err := set("a", true); err != nil {
		t.Errorf("another tablet: %v", err)
	}
	if err := set("z", true); status.Code(err) != codes.Unavailable {
		t.Errorf("a conditional mutation: %v, want Unavailable", err)
	}
	d.Split("t", "x")
	if err := set("z", false); err != nil {
		t.Errorf("a mutation: %v", err)
	}
	if err := set("n", true); status.Code(err) != codes.Unavailable {
		t.Errorf("the other half: %v, want Unavailable", err)
	}
	d.Move("t", "z", 2)
	if _, err := tbl.ReadRow(ctx, "z"); err != nil {
		t.Errorf("a read: %v", err)
	}
	d.Move("t", "z", 1)
	entry := func(key string) *btpb.MutateRowsRequest_Entry {
		return &btpb.MutateRowsRequest_Entry{RowKey: []byte(key), Mutations: []*btpb.Mutation{setCell("f", "q", 1000, nil)}}
	}
	answers, err := mutateRows(ctx, btpb.NewBigtableClient(dial(t, s.Addr())), entry("y"), entry("b"), entry("z"))
	if want := map[int64]codes.Code{0: codes.Unavailable, 1: codes.OK, 2: codes.Unavailable}; err != nil || !maps.Equal(answers, want) {
		t.Errorf("a request for many rows: %v, %v, want %v", answers, err, want)
	}
	if _, err := openClient(t, s.ClientOptions()).Open("none").SampleRowKeys(ctx); status.Code(err) != codes.NotFound {
		t.Errorf("a table that does not exist: %v", err)
	}
	if keys, err := tbl.SampleRowKeys(ctx); err != nil || len(keys) < 2 || keys[0] != "m" || keys[1] != "x" {
		t.Errorf("the table is cut at %q, %v", keys, err)
	}
}

// TestLowPriorityWaits: a read under a profile of low priority waits for the others; one whose
// caller has left does not hold up the rest.
func TestLowPriorityWaits(t *testing.T) {
	t.Parallel()
	d := &Disks{}
	ctx := testContext(t)
	leave, err := d.enter(ctx, "t", "a", false)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan string, 3)
	var g errgroup.Group
	enter := func(ctx context.Context, name string, low bool, queued int) {
		g.Go(func() error {
			leave, err := d.enter(ctx, "t", "a", low)
			if err == nil {
				served <- name
				leave()
			} else if ctx.Err() == nil {
				return err
			}
			return nil
		})
		eventually(t, name+" waits", func() bool {
			d.mu.Lock()
			defer d.mu.Unlock()
			w := d.table("t").tablets[0].waiting
			return len(w[0])+len(w[1]) == queued
		})
	}
	gone, cancel := context.WithCancel(ctx)
	enter(ctx, "low", true, 1)
	enter(gone, "gone", false, 2)
	enter(ctx, "high", false, 3)
	cancel()
	eventually(t, "the caller has left", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.table("t").tablets[0].waiting[0]) == 1
	})
	leave()
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if first, second := <-served, <-served; first != "high" || second != "low" {
		t.Errorf("served %s before %s", first, second)
	}
	if d.table("t").tablets[0].busy {
		t.Error("the tablet is still busy")
	}
}
