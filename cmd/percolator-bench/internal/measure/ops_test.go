package measure

import (
	"bytes"
	"testing"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"

	"github.com/gopercolator/percolator/cmd/webindex/page"
)

// Requests are told apart by what they name.
func TestOriginOf(t *testing.T) {
	t.Parallel()
	column := func(family, name string) *btpb.RowFilter {
		r := &btpb.ColumnRange{FamilyName: family}
		if name != "" {
			r.StartQualifier = &btpb.ColumnRange_StartQualifierClosed{StartQualifierClosed: []byte(name)}
		}
		return &btpb.RowFilter{Filter: &btpb.RowFilter_ColumnRangeFilter{ColumnRangeFilter: r}}
	}
	newest := &btpb.RowFilter{Filter: &btpb.RowFilter_CellsPerColumnLimitFilter{CellsPerColumnLimitFilter: 1}}
	pattern := &btpb.RowFilter{Filter: &btpb.RowFilter_ColumnQualifierRegexFilter{ColumnQualifierRegexFilter: []byte(`c\x3aa|c\x3ab|c`)}}
	value := &btpb.RowFilter{Filter: &btpb.RowFilter_ValueRangeFilter{ValueRangeFilter: &btpb.ValueRange{}}}
	interleave := func(fs ...*btpb.RowFilter) *btpb.RowFilter {
		return &btpb.RowFilter{Filter: &btpb.RowFilter_Interleave_{Interleave: &btpb.RowFilter_Interleave{Filters: fs}}}
	}
	chain := func(fs ...*btpb.RowFilter) *btpb.RowFilter {
		return &btpb.RowFilter{Filter: &btpb.RowFilter_Chain_{Chain: &btpb.RowFilter_Chain{Filters: fs}}}
	}
	keys := &btpb.RowSet{RowKeys: [][]byte{[]byte("a"), []byte("b")}}
	span := func(from, to string) *btpb.RowSet {
		return &btpb.RowSet{RowRanges: []*btpb.RowRange{{
			StartKey: &btpb.RowRange_StartKeyClosed{StartKeyClosed: []byte(from)}, EndKey: &btpb.RowRange_EndKeyOpen{EndKeyOpen: []byte(to)},
		}}}
	}
	pending := chain(interleave(column("notify", ""), column("lock", "")), newest)
	for _, c := range []struct {
		name   string
		table  string
		rows   *btpb.RowSet
		filter *btpb.RowFilter
		want   readOrigin
		asked  asked
	}{
		{"two columns of two rows", "t", keys,
			chain(interleave(column("lock", "y"), column("lock", "x"), column("data", "y"), column("data", "x"))),
			readOrigin{readGet, "t", "x y"}, asked{2, 4}},
		{"many columns", "t", keys, chain(newest, pattern),
			readOrigin{readGet, "t", "c c:a c:b"}, asked{2, 6}},
		{"whole rows", "t", keys, newest, readOrigin{readGet, "t", ""}, asked{2, 2}},
		{"a transaction's status", "t", keys, interleave(chain(column("write", "x"), value)),
			readOrigin{readGet, "t", "x (of a primary)"}, asked{2, 2}},
		{"a scan", "t", span("a", "b"), newest, readOrigin{readScan, "t", ""}, asked{}},
		{"a search", "t", span("a", "b"), pending, readOrigin{readSearch, "t", ""}, asked{}},
		{"a look at one row", "t", span("a", "a\x00"), pending, readOrigin{readCheck, "t", ""}, asked{}},
		{"a look that follows the journal", "t", keys, interleave(column("notify", "!"), column("notify", "\x00"), column("lock", "")),
			readOrigin{readLook, "t", ""}, asked{2, 2}},
		{"the end of a wait", "t", span("", ""), chain(column("write", "")), readOrigin{readSearch, "t", ""}, asked{}},
		{"the library's own", "percolator_meta", keys, nil, readOrigin{readOwn, "percolator_meta", ""}, asked{2, 2}},
		{"the journal", "percolator_journal", keys, nil, readOrigin{readOwn, "percolator_journal", ""}, asked{2, 2}},
	} {
		got, n := originOf(&btpb.ReadRowsRequest{TableName: "projects/p/instances/i/tables/" + c.table, Rows: c.rows, Filter: c.filter})
		if got != c.want || n != c.asked {
			t.Errorf("%s: %+v %+v, want %+v %+v", c.name, got, n, c.want, c.asked)
		}
	}
}

// The crawl has as many pages as asked for, made up ones if need be, each URL once; the changed
// ones are others than before.
func TestOpsPages(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 50, 400} {
		before, err := opsPages(t.Context(), n, 1)
		if err != nil {
			t.Fatal(err)
		}
		after, err := opsPages(t.Context(), n, 1)
		if err != nil {
			t.Fatal(err)
		}
		changed := change(after, n/10)
		urls, others := map[string]bool{}, 0
		for i, r := range before {
			url, err := page.Identity(r.URL)
			if err != nil {
				t.Fatal(err)
			}
			urls[url] = true
			if !bytes.Equal(r.Body, after[i].Body) {
				others++
			}
		}
		if len(before) != n || len(urls) != n || changed != n/10 || others != changed {
			t.Errorf("%d pages with %d URLs, %d changed and %d others, not %d and %d", len(before), len(urls), changed, others, n, n/10)
		}
	}
}
