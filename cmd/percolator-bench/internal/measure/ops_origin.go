package measure

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
)

// What a ReadRows request is for.
const (
	readGet    = "get"    // rows by their keys, for Get and GetMulti and for what they meet: locks, older versions
	readScan   = "scan"   // a range, for Scan
	readCheck  = "check"  // whether the notification of one row is still there, before its observer is run
	readSearch = "search" // for notifications and locks: a worker that looks for work, or waits until there is none
	readOwn    = "own"    // of the library's own table
)

// readOrigin is where a ReadRows request comes from, as far as can be told from the request.
type readOrigin struct{ kind, table, columns string }

// asked is how many rows and cells a request names; 0 of a range.
type asked struct{ rows, cells int }

// originOf tells who sends such a request. Filters name few columns by ranges and many by a pattern; see the filters of package
// percolator.
func originOf(r *btpb.ReadRowsRequest) (readOrigin, asked) {
	o := readOrigin{kind: readGet, table: r.TableName[strings.LastIndexByte(r.TableName, '/')+1:]}
	var f namedByFilter
	f.walk(r.Filter)
	keys := len(r.GetRows().GetRowKeys())
	switch {
	case strings.HasPrefix(o.table, "percolator_"):
		o.kind = readOwn
		return o, asked{keys, keys}
	case f.wholeFamily("notify"), f.wholeFamily("write"): // the second looks for commits at the end of a wait
		if o.kind = readSearch; oneRow(r.GetRows().GetRowRanges()) {
			o.kind = readCheck
		}
		return o, asked{}
	case keys == 0:
		o.kind = readScan
	}
	slices.Sort(f.columns)
	f.columns = slices.Compact(f.columns)
	if o.columns = strings.Join(f.columns, " "); f.values {
		o.columns += " (of a primary)"
	}
	return o, asked{keys, keys * max(1, len(f.columns))}
}

// oneRow tells whether a range holds one row only.
func oneRow(ranges []*btpb.RowRange) bool {
	return len(ranges) == 1 && string(ranges[0].GetEndKeyOpen()) == string(ranges[0].GetStartKeyClosed())+"\x00"
}

// namedByFilter is what a filter lets through.
type namedByFilter struct {
	columns  []string
	families []string // of which all columns pass
	values   bool     // it looks at values
}

func (f *namedByFilter) wholeFamily(name string) bool { return slices.Contains(f.families, name) }

func (f *namedByFilter) walk(filter *btpb.RowFilter) {
	switch x := filter.GetFilter().(type) {
	case *btpb.RowFilter_Chain_:
		for _, part := range x.Chain.Filters {
			f.walk(part)
		}
	case *btpb.RowFilter_Interleave_:
		for _, part := range x.Interleave.Filters {
			f.walk(part)
		}
	case *btpb.RowFilter_ColumnRangeFilter:
		if from := string(x.ColumnRangeFilter.GetStartQualifierClosed()); from != "" {
			f.columns = append(f.columns, from)
		} else {
			f.families = append(f.families, x.ColumnRangeFilter.FamilyName)
		}
	case *btpb.RowFilter_ColumnQualifierRegexFilter:
		for _, c := range strings.Split(string(x.ColumnQualifierRegexFilter), "|") {
			f.columns = append(f.columns, unescaped(c))
		}
	case *btpb.RowFilter_ValueRangeFilter:
		f.values = true
	}
}

var escapedByte = regexp.MustCompile(`\\x[0-9a-f]{2}`)

// unescaped is the column that a part of a pattern names.
func unescaped(pattern string) string {
	return escapedByte.ReplaceAllStringFunc(pattern, func(s string) string {
		n, _ := strconv.ParseUint(s[2:], 16, 8) //nolint:errcheck // two digits
		return string([]byte{byte(n)})
	})
}
