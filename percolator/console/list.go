package console

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gopercolator/percolator/internal/ordered"
)

// Limits of a list.
const (
	pageLines      = 50 // lines of a list on one page
	maxFilterBytes = 256
	maxGroups      = 200
)

// listQuery is what the address of a page asks of its list.
type listQuery struct {
	Filter string // text that a line holds, whatever its case
	Only   string // with Group: the lines of this group
	Group  string // the column by which to group
	Sort   string // the column by which to sort; "": as the list comes
	Down   bool   // the largest first
	Page   int    // from 0
}

// readQuery takes what it understands; everything else counts as not asked for.
func readQuery(q url.Values) listQuery {
	short := func(name string) string {
		if text := q.Get(name); len(text) <= maxFilterBytes {
			return text
		}
		return ""
	}
	page, _ := strconv.Atoi(q.Get("n"))
	return listQuery{Filter: short("q"), Only: q.Get("only"), Group: short("group"), Sort: short("sort"), Down: q.Get("down") == "1", Page: max(page, 0)}
}

// encode is the query as part of an address, "" for the zero value.
func (q listQuery) encode() string {
	values := url.Values{}
	for name, text := range map[string]string{"q": q.Filter, "only": q.Only, "group": q.Group, "sort": q.Sort} {
		if text != "" {
			values.Set(name, text)
		}
	}
	if q.Down {
		values.Set("down", "1")
	}
	if q.Page > 0 {
		values.Set("n", strconv.Itoa(q.Page))
	}
	return values.Encode()
}

// column is a column of a list of T.
type column[T any] struct {
	Key, Title string
	Text       func(T) string   // what the filter looks at
	Order      func(a, b T) int // nil: that of Text
	Groups     bool             // lines can be grouped by Text
}

// listed is the part of a list that a page shows.
type listed[T any] struct {
	listTools

	Rows []T
}

// listTools is what a page shows around a list.
type listTools struct {
	Query           listQuery
	Path            string
	Heads           []head
	GroupBy         []head
	Groups          []group // instead of rows
	MoreGroups      int     // that are not among them
	From, To        int     // the lines shown, from 1
	Matching, Total int
	Previous, Next  string // addresses; "": none
	All             string // the address without filter and group
}

// head is a column's head, which sorts or groups by it.
type head struct{ Title, URL, Sorted string }

// group is the lines that have one text in a column.
type group struct {
	Text  string
	Lines int
	URL   string
}

// arrange filters, groups, sorts and pages a list.
func arrange[T any](path string, q listQuery, all []T, columns []column[T]) listed[T] {
	l := listed[T]{listTools: listTools{Query: q, Path: path, Total: len(all), All: path}}
	at := func(q listQuery) string { return strings.TrimSuffix(path+"?"+q.encode(), "?") }
	for _, c := range columns {
		h := head{Title: c.Title, URL: at(listQuery{Filter: q.Filter, Only: q.Only, Group: q.Group, Sort: c.Key, Down: q.Sort == c.Key && !q.Down})}
		if q.Sort == c.Key {
			h.Sorted = map[bool]string{false: "ascending", true: "descending"}[q.Down]
		}
		l.Heads = append(l.Heads, h)
		if c.Groups {
			l.GroupBy = append(l.GroupBy, head{Title: c.Title, URL: at(listQuery{Filter: q.Filter, Group: c.Key})})
		}
	}
	rows := matching(q, all, columns)
	l.Matching = len(rows)
	if by := columnOf(columns, q.Group); by != nil && by.Groups && q.Only == "" {
		l.Groups, l.MoreGroups = groupsOf(q, rows, *by, at)
		return l
	}
	sortRows(q, rows, columns)
	q.Page = min(q.Page, max(0, (len(rows)-1)/pageLines))
	first, end := q.Page*pageLines, min((q.Page+1)*pageLines, len(rows))
	l.Rows, l.From, l.To = rows[first:end], min(first+1, len(rows)), end
	turn := func(by int) string { q := q; q.Page += by; return at(q) }
	if first > 0 {
		l.Previous = turn(-1)
	}
	if end < len(rows) {
		l.Next = turn(1)
	}
	return l
}

func columnOf[T any](columns []column[T], key string) *column[T] {
	if i := slices.IndexFunc(columns, func(c column[T]) bool { return c.Key == key }); i >= 0 && key != "" {
		return &columns[i]
	}
	return nil
}

// matching are the rows that pass the filter, in a slice of their own.
func matching[T any](q listQuery, all []T, columns []column[T]) []T {
	wanted, by := strings.ToLower(q.Filter), columnOf(columns, q.Group)
	return slices.DeleteFunc(slices.Clone(all), func(row T) bool {
		if by != nil && q.Only != "" && by.Text(row) != q.Only {
			return true
		}
		return !slices.ContainsFunc(columns, func(c column[T]) bool { return strings.Contains(strings.ToLower(c.Text(row)), wanted) })
	})
}

func sortRows[T any](q listQuery, rows []T, columns []column[T]) {
	by := columnOf(columns, q.Sort)
	if by == nil {
		return
	}
	order := by.Order
	if order == nil {
		order = func(a, b T) int { return cmp.Compare(by.Text(a), by.Text(b)) }
	}
	slices.SortStableFunc(rows, func(a, b T) int {
		if q.Down {
			a, b = b, a
		}
		return order(a, b)
	})
}

// groupsOf counts rows by their text in a column, the most frequent first, at most maxGroups, and
// says how many more there are.
func groupsOf[T any](q listQuery, rows []T, by column[T], at func(listQuery) string) (groups []group, more int) {
	lines := map[string]int{}
	for _, row := range rows {
		lines[by.Text(row)]++
	}
	texts := slices.SortedFunc(maps.Keys(lines), func(a, b string) int { return cmp.Or(cmp.Compare(lines[b], lines[a]), cmp.Compare(a, b)) })
	shown := texts[:min(len(texts), maxGroups)]
	return ordered.Map(shown, func(text string) group {
		return group{text, lines[text], at(listQuery{Filter: q.Filter, Group: q.Group, Only: text})}
	}), len(texts) - len(shown)
}

// GroupTitle is the head of the column by which the list is grouped.
func (l listTools) GroupTitle() string {
	for _, h := range l.GroupBy {
		if strings.Contains(h.URL, "group="+url.QueryEscape(l.Query.Group)) {
			return h.Title
		}
	}
	return ""
}

// Tools tells whether there is enough to filter, or something is filtered.
func (l listTools) Tools() bool {
	return l.Total > 1 || l.Query.Filter != "" || l.Query.Only != ""
}

// Count says how many lines are shown, of how many.
func (l listTools) Count() string {
	switch {
	case l.Groups != nil:
		return plural(len(l.Groups), "group", "groups") + " of " + plural(l.Matching, "line", "lines")
	case l.Matching == 0:
		return "No line of " + grouped(int64(l.Total)) + " matches."
	case l.Matching < l.Total:
		return fmt.Sprintf("%d to %d of %s that match, of %s", l.From, l.To, grouped(int64(l.Matching)), grouped(int64(l.Total)))
	}
	return fmt.Sprintf("%d to %d of %s", l.From, l.To, grouped(int64(l.Total)))
}
