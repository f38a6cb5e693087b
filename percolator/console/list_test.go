package console

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

type entry struct {
	name string
	size int
	kind string
}

var entryColumns = []column[entry]{
	{Key: "name", Title: "Name", Text: func(e entry) string { return e.name }},
	{Key: "size", Title: "Size", Text: func(entry) string { return "" }, Order: func(a, b entry) int { return cmp.Compare(a.size, b.size) }},
	{Key: "kind", Title: "Kind", Text: func(e entry) string { return e.kind }, Groups: true},
}

// entries are 120 lines in the order of their names, the sizes downwards, of two kinds.
func entries() (list []entry) {
	for i := range 120 {
		list = append(list, entry{fmt.Sprintf("Entry-%03d", i), 1000 - i, []string{"even", "odd"}[i%2]})
	}
	return list
}

// A list is filtered, sorted, grouped and paged as its address says, and its links lead on.
func TestListsFollowTheirAddress(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		query       string
		first, last string
		count       string
	}{
		{"", "Entry-000", "Entry-049", "1 to 50 of 120"},
		{"n=2", "Entry-100", "Entry-119", "101 to 120 of 120"},
		{"n=99", "Entry-100", "Entry-119", "101 to 120 of 120"},
		{"n=-3", "Entry-000", "Entry-049", "1 to 50 of 120"},
		{"sort=size", "Entry-119", "Entry-070", "1 to 50 of 120"},
		{"sort=size&down=1", "Entry-000", "Entry-049", "1 to 50 of 120"},
		{"sort=nothing", "Entry-000", "Entry-049", "1 to 50 of 120"},
		{"q=eNTRY-00", "Entry-000", "Entry-009", "1 to 10 of 10 that match, of 120"},
		{"group=kind&only=odd&q=Entry-00", "Entry-001", "Entry-009", "1 to 5 of 5 that match, of 120"},
		{"q=" + strings.Repeat("x", maxFilterBytes+1), "Entry-000", "Entry-049", "1 to 50 of 120"},
	} {
		l := arrange("path", query(t, test.query), entries(), entryColumns)
		if len(l.Rows) == 0 || l.Rows[0].name != test.first || l.Rows[len(l.Rows)-1].name != test.last || l.Count() != test.count {
			t.Errorf("%s: %q, %v", test.query, l.Count(), l.Rows)
		}
	}
	l := arrange("path", query(t, "group=kind"), entries(), entryColumns)
	if len(l.Rows) != 0 || fmt.Sprint(l.Groups) != "[{even 60 path?group=kind&only=even} {odd 60 path?group=kind&only=odd}]" || l.GroupTitle() != "Kind" {
		t.Errorf("groups %v of %q", l.Groups, l.GroupTitle())
	}
	if l = arrange("path", query(t, "q=none"), entries(), entryColumns); len(l.Rows) != 0 || l.Count() != "No line of 120 matches." {
		t.Errorf("%q: %v", l.Count(), l.Rows)
	}
	l = arrange("path", query(t, "n=1&sort=name"), entries(), entryColumns)
	if l.Previous != "path?sort=name" || l.Next != "path?n=2&sort=name" || l.Heads[0].URL != "path?down=1&sort=name" || l.Heads[0].Sorted != "ascending" {
		t.Errorf("%+v", l.listTools)
	}
}

func query(t *testing.T, text string) listQuery {
	t.Helper()
	values, err := url.ParseQuery(text)
	if err != nil {
		t.Fatal(err)
	}
	return readQuery(values)
}

// Groups that are left out are counted.
func TestGroupsThatAreLeftOut(t *testing.T) {
	t.Parallel()
	var all []string
	for i := range maxGroups + 3 {
		all = append(all, fmt.Sprint(i))
	}
	l := arrange("path", listQuery{Group: "text"}, all, []column[string]{{Key: "text", Title: "Text", Text: func(s string) string { return s }, Groups: true}})
	if len(l.Groups) != maxGroups || l.MoreGroups != 3 {
		t.Errorf("%d groups, %d more", len(l.Groups), l.MoreGroups)
	}
}
