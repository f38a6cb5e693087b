package adopt

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/bigtable"
	"sigs.k8s.io/yaml"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
)

// Mapping says which cells of a plain Bigtable table become which values. Of a cell the newest
// version counts.
type Mapping struct {
	Columns []Column `json:"columns"`
}

// Column maps a column of the plain table, or all of a family whose qualifiers begin with a prefix.
type Column struct {
	Family    string `json:"family"`
	Qualifier string `json:"qualifier"` // the whole of it, or "PREFIX*"; "*" is all of the family
	// Column is the name in the Percolator table. "": the qualifier. Where that ends with "*", so
	// does Column, and what follows the prefix takes the place of the star.
	Column string `json:"column,omitempty"`
	// Text tells that a value is the text of the column's declared type, as "percolator set" takes
	// it. Otherwise its bytes are stored as they are, and have to be of that type.
	Text bool `json:"text,omitempty"`
}

// MaxColumns is how many columns a mapping names at most: each takes room in a filter. Beyond it
// the mapping is ErrInvalidArgument.
const MaxColumns = 100

// ParseMapping reads a mapping in YAML, and refuses what it does not know.
func ParseMapping(text []byte) (*Mapping, error) {
	m := new(Mapping)
	if err := yaml.UnmarshalStrict(text, m); err != nil {
		return nil, fmt.Errorf("%w: %w", percolator.ErrInvalidArgument, err)
	}
	return m, m.validate()
}

// prefix returns what a pattern's names begin with, if it is not a whole name.
func prefix(pattern string) (string, bool) { return strings.CutSuffix(pattern, "*") }

func (m *Mapping) validate() error {
	if len(m.Columns) == 0 || len(m.Columns) > MaxColumns {
		return fmt.Errorf("%w: a mapping names 1 to %d columns, not %d", percolator.ErrInvalidArgument, MaxColumns, len(m.Columns))
	}
	for i, c := range m.Columns {
		_, several := prefix(c.Qualifier)
		_, named := prefix(c.column())
		switch {
		case c.Family == "" || c.Qualifier == "":
			return fmt.Errorf("%w: column %d of the mapping needs a family and a qualifier", percolator.ErrInvalidArgument, i+1)
		case several != named:
			return fmt.Errorf("%w: column %d of the mapping: qualifier %q and column %q must both end with a star, or neither", percolator.ErrInvalidArgument, i+1, c.Qualifier, c.column())
		}
		for _, o := range m.Columns[:i] {
			if o.Family == c.Family && overlap(o.Qualifier, c.Qualifier) || overlap(o.column(), c.column()) {
				return fmt.Errorf("%w: two columns of the mapping overlap: %s:%s and %s:%s", percolator.ErrInvalidArgument, o.Family, o.Qualifier, c.Family, c.Qualifier)
			}
		}
	}
	return nil
}

// overlap reports whether two patterns have a name in common.
func overlap(a, b string) bool {
	p, several := prefix(a)
	q, others := prefix(b)
	switch {
	case several && others:
		return strings.HasPrefix(p, q) || strings.HasPrefix(q, p)
	case several:
		return strings.HasPrefix(b, p)
	case others:
		return strings.HasPrefix(a, q)
	}
	return a == b
}

func (c Column) column() string {
	if c.Column == "" {
		return c.Qualifier
	}
	return c.Column
}

// rename is the name in the Percolator table of a qualifier; false: the mapping does not mean it.
func (c Column) rename(qualifier string) (string, bool) {
	p, several := prefix(c.Qualifier)
	if !several {
		return c.column(), qualifier == c.Qualifier
	}
	rest, ok := strings.CutPrefix(qualifier, p)
	return strings.TrimSuffix(c.column(), "*") + rest, ok
}

// filter lets through the newest version, at or before at unless that is zero, of each mapped cell.
func (m *Mapping) filter(at time.Time) bigtable.Filter {
	var columns []bigtable.Filter
	for _, c := range m.Columns {
		start, end := c.Qualifier, c.Qualifier+"\x00"
		if p, several := prefix(c.Qualifier); several {
			start, end = p, model.Prefix(p).End
		}
		columns = append(columns, bigtable.ColumnRangeFilter(c.Family, start, end))
	}
	all := columns[0]
	if len(columns) > 1 {
		all = bigtable.InterleaveFilters(columns...)
	}
	chain := []bigtable.Filter{all}
	if !at.IsZero() {
		// The end is exclusive, and the client cuts it to whole milliseconds, as Bigtable has them.
		chain = append(chain, bigtable.TimestampRangeFilterMicros(0, bigtable.Timestamp(1000*(at.UnixMilli()+1))))
	}
	return bigtable.ChainFilters(append(chain, bigtable.LatestNFilter(1))...)
}

// table is a Percolator table as the target of a mapping.
type table struct {
	*Mapping
	name string
	info *catalog.TableInfo
}

// of prepares the mapping for a table of the client.
func (m *Mapping) of(client *percolator.Client, name string) (*table, error) {
	if err := m.validate(); err != nil {
		return nil, err
	}
	catalog := catalog.New(client.Schema())
	info, ok := catalog.UserTable(name)
	if !ok {
		return nil, catalog.UnknownTable(name)
	}
	return &table{m, name, info}, nil
}

// row is what a row of the plain table becomes. Errors name the row and the column, never a value.
func (t *table) row(r bigtable.Row) (model.ImportRow, error) {
	out := model.ImportRow{Row: r.Key()}
	for family, items := range r {
		for _, it := range items {
			qualifier := strings.TrimPrefix(it.Column, family+":")
			for _, c := range t.Columns {
				if c.Family != family {
					continue
				}
				name, ok := c.rename(qualifier)
				if !ok {
					continue
				}
				value, err := t.value(c, name, it.Value)
				if err != nil {
					return out, catalog.CellError(percolator.ErrInvalidArgument, percolator.Cell{Table: t.name, Row: out.Row, Column: name}, "the cell %s:%s of the plain table: %v", family, qualifier, err)
				}
				out.Cells = append(out.Cells, model.ImportCell{Column: name, Value: value})
			}
		}
	}
	slices.SortFunc(out.Cells, func(a, b model.ImportCell) int { return strings.Compare(a.Column, b.Column) })
	return out, nil
}

func (t *table) value(c Column, name string, value []byte) ([]byte, error) {
	if value == nil {
		value = []byte{}
	}
	if !c.Text {
		return value, nil
	}
	declared, ok := t.info.Declared.Of(name)
	if !ok || declared.Type == "" {
		return value, nil
	}
	return declared.Type.Parse(string(value))
}

// means reports whether a column of the Percolator table is one that the mapping fills. A star is a
// letter of the column's name like any other.
func (m *Mapping) means(column string) bool {
	return slices.ContainsFunc(m.Columns, func(c Column) bool {
		p, several := prefix(c.column())
		return several && strings.HasPrefix(column, p) || !several && column == c.column()
	})
}
