package model

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gopercolator/percolator/internal/text"
)

// MetaTable holds one row with the schema, the safepoint and the GC watermark, and the oracle's row
// when Bigtable keeps that: tso.BigtableTable.
const MetaTable = "percolator_meta"

// JournalTable records what transactions are about to write.
const JournalTable = "percolator_journal"

// tableName is a table id that Bigtable accepts, less the dot, which separates a table from its
// index.
var tableName = regexp.MustCompile(`^[_a-zA-Z0-9][-_a-zA-Z0-9]{0,49}$`)

// MaxTables is how many tables an instance of Bigtable may have. Each index is one, and so are
// MetaTable and JournalTable.
const MaxTables = 1000

// bigtableName is a table id that Bigtable accepts.
var bigtableName = regexp.MustCompile(`^[_a-zA-Z0-9][-_.a-zA-Z0-9]{0,49}$`)

// Schema is the set of Percolator tables of an instance. It is stored in the instance and
// versioned, because a writer with another schema would silently omit notifications (section 2.4 of
// the paper; docs/PROTOCOL.md, I10).
//
// Schemas with different names share an instance, in which a table's name occurs once. CreateSchema
// changes, and Config.Schema is compared with, the tables of the schema with that name alone. The
// stored schema has the tables of all.
type Schema struct {
	// Name tells the schemas of several teams on one instance apart; their tables share one
	// namespace. In the stored schema, which has the tables of all, each Table has it instead.
	Name   string `json:"-"`
	Tables []Table
	Timing Timing `json:",omitzero"`

	// DisableJournal leaves out the journal, by which unfinished work and garbage are found:
	// workers and collectors then pass over all tables. CreateSchema gives an instance a journal,
	// or turns off the one that there is. See docs/PROTOCOL.md, "The journal".
	DisableJournal bool `json:",omitempty"`

	// Dropping lists the Bigtable tables whose drop is unfinished. Only a stored schema has them;
	// CreateSchema ignores them.
	Dropping []string `json:",omitempty"`
}

// Table describes one table. Its columns need no declaration, except those that notify.
//
// A table with Columns has no others: naming one that is not declared, to write it, to read it, or
// as an observed, weak or indexed one, is ErrInvalidArgument. So is a value that is not of the
// declared type. Reads never check values, and a Scan of all columns also gives what was written
// before the columns were declared. At most MaxDeclaredColumns.
//
// With NotifyExpired collection deletes what has expired, in transactions: observers of the column
// run as for any deletion, and watchers are told of it, when the retention has passed since the
// value expired. Without it no observer hears of that. It stands beside a TTL that an observed
// column has, or the schema is invalid.
type Table struct {
	Name     string         // as Bigtable accepts it, without a dot
	Observed []string       `json:",omitempty"` // columns whose writes notify observers
	Weak     []string       `json:",omitempty"` // columns that can only be notified, never written
	Indexes  []Index        `json:",omitempty"`
	Splits   []string       `json:",omitempty"` // initial split keys, for the table's creation
	Columns  []ColumnSchema `json:",omitempty"` // empty: any column, of bytes
	TTL      time.Duration  `json:",omitempty"` // 0: values live until they are deleted

	NotifyExpired bool `json:",omitempty"` // observers hear when a value with this TTL has expired

	Schema string `json:",omitempty"` // the name of the schema that declares it; "": Schema.Name
}

// Index is a secondary index over the bytes of one column, maintained in the transaction that
// writes the column. Its entries live in a table of their own, named after the table and the index.
//
// An index that CreateSchema adds to a stored table is incomplete until admin.Admin.BackfillIndex
// has finished: cells older than the index lack their entries. Until then ScanIndex gives
// ErrSchemaMismatch, and a unique index refuses only the duplicates that it knows of.
// admin.Admin.VerifyIndex compares an index with its table. See docs/PROTOCOL.md, "Indexes".
type Index struct {
	Name, Column string
	Unique       bool `json:",omitempty"` // two rows cannot hold the same value: ErrUnique
}

// Validate reports what is wrong with a schema, as ErrInvalidArgument.
func Validate(s *Schema) error {
	if s == nil {
		return fmt.Errorf("percolator: %w: no schema", ErrInvalidArgument)
	}
	if err := CheckTiming(s.Timing); err != nil {
		return err
	}
	return ValidateStored(s)
}

// ValidateStored is Validate for a schema with the Timing of an instance, which cannot change.
func ValidateStored(s *Schema) error {
	if err := CheckStoredTiming(s.Timing); err != nil {
		return err
	}
	seen := map[string]bool{MetaTable: true, JournalTable: true}
	for _, t := range s.Tables {
		if s.Name != "" && t.Schema != "" && t.Schema != s.Name {
			// A drop would delete the other tables of that name.
			return fmt.Errorf("percolator: table %q: %w: it is in %s, so it has no place in %s", t.Name, ErrInvalidArgument, schemaText(t.Schema), schemaText(s.Name))
		}
		if name := cmp.Or(t.Schema, s.Name); name != "" && !tableName.MatchString(name) {
			return fmt.Errorf("percolator: %w: %q is not a name for a schema; it has the form of a table's", ErrInvalidArgument, name)
		}
		if !tableName.MatchString(t.Name) || t.Name == MetaTable || t.Name == JournalTable {
			return fmt.Errorf("percolator: table %q: %w: not a table name", t.Name, ErrInvalidArgument)
		}
		for _, name := range BigtableNames(t) {
			if !bigtableName.MatchString(name) || seen[name] {
				return fmt.Errorf("percolator: table %q: %w: the table %q is named twice or is not a table name", t.Name, ErrInvalidArgument, name)
			}
			seen[name] = true
		}
		if err := validateColumns(&t); err != nil {
			return err
		}
	}
	if len(seen) > MaxTables {
		return fmt.Errorf("percolator: %w: the schema takes %d tables of Bigtable, those of indexes and of Percolator among them; an instance has at most %d", ErrTooLarge, len(seen), MaxTables)
	}
	for _, name := range s.Dropping {
		if !bigtableName.MatchString(name) || seen[name] {
			return fmt.Errorf("percolator: table %q: %w: it is being dropped; finish that first (percolator schema apply --drop)", name, ErrSchemaMismatch)
		}
	}
	return nil
}

func validateColumns(t *Table) error {
	seen := map[string]bool{}
	for _, col := range slices.Concat(t.Observed, t.Weak) {
		if err := ValidateColumn(Cell{t.Name, "", col}); err != nil {
			return err
		}
		if seen[col] {
			return CellError(ErrInvalidArgument, Cell{t.Name, "", col}, "the column is listed twice among observed and weak columns")
		}
		seen[col] = true
	}
	for _, ix := range t.Indexes {
		if err := ValidateColumn(Cell{t.Name, "", ix.Column}); err != nil {
			return err
		}
		if ix.Name == "" || slices.Contains(t.Weak, ix.Column) {
			return CellError(ErrInvalidArgument, Cell{t.Name, "", ix.Column}, "an index needs a name and a column that can be written")
		}
	}
	return validateDeclarations(t)
}

// BigtableNames lists the Bigtable tables that carry t: its own and one for each index.
func BigtableNames(t Table) []string {
	names := []string{t.Name}
	for _, ix := range t.Indexes {
		names = append(names, IndexTable(t.Name, ix))
	}
	return names
}

// IndexTable is the Bigtable table of an index on table.
func IndexTable(table string, ix Index) string { return table + "." + ix.Name }

// Catalog is a schema prepared for look-ups on the hot path. It is immutable.
type Catalog struct {
	Schema *Schema
	Tables map[string]*TableInfo // by Bigtable name, indexes among them
}

// TableInfo is a table with its columns as sets.
type TableInfo struct {
	Table
	IsObserved map[string]bool
	IsWeak     map[string]bool
	IndexesOf  map[string][]Index // by column
	Declared   *Declarations
	index      bool // this is the table of an index, or is being dropped
}

// NewCatalog prepares a valid schema.
func NewCatalog(s *Schema) *Catalog {
	c := &Catalog{Schema: s, Tables: map[string]*TableInfo{}}
	for _, t := range s.Tables {
		info := &TableInfo{Table: t, IsObserved: SetOf(t.Observed), IsWeak: SetOf(t.Weak), IndexesOf: map[string][]Index{}, Declared: declarationsOf(t.Columns)}
		for _, ix := range t.Indexes {
			info.IndexesOf[ix.Column] = append(info.IndexesOf[ix.Column], ix)
			c.Tables[IndexTable(t.Name, ix)] = &TableInfo{Table: Table{Name: IndexTable(t.Name, ix)}, index: true}
		}
		c.Tables[t.Name] = info
	}
	for _, name := range s.Dropping {
		c.Tables[name] = &TableInfo{Table: Table{Name: name}, index: true}
	}
	return c
}

// CheckColumn validates the name of a column that a caller wants to read or write: it has to be
// declared in a table that declares its columns.
func (t *TableInfo) CheckColumn(c Cell) error {
	if err := ValidateColumn(c); err != nil {
		return err
	}
	return t.Declared.Check(c)
}

// CheckPut checks a value against the column's declared type, and what its indexes can hold. The
// name of the column is valid.
func (t *TableInfo) CheckPut(c Cell, value []byte) error {
	if err := t.Declared.checkPut(c, value); err != nil {
		return err
	}
	for _, ix := range t.IndexesOf[c.Column] {
		if err := CheckIndexEntry(ix, c, value); err != nil {
			return err
		}
	}
	return nil
}

// CheckType returns ErrInvalidArgument if a program reads or writes a column as another type than
// the declared one, whose values may have the same length. The empty type is any, as is a column
// of bytes.
func (t *TableInfo) CheckType(c Cell, as Type) error {
	decl, ok := t.Declared.Of(c.Column)
	switch {
	case !ok, as == "", decl.Type == as, decl.Type == TypeBytes, decl.Type == TypeJSON && as == TypeString:
		return nil // or it is not declared, as CheckColumn tells
	}
	return CellError(ErrInvalidArgument, c, "the column is declared %s, and the program uses it as %s", decl.Type, as)
}

// UserTable returns the table if a caller may name it; tables of indexes belong to the engine.
func (c *Catalog) UserTable(name string) (*TableInfo, bool) {
	t, ok := c.Tables[name]
	return t, ok && !t.index
}

// TypeOf returns the declared type of a column: TypeBytes where nothing is declared, also of a
// table that the schema does not have.
func (c *Catalog) TypeOf(table, column string) Type {
	if info, ok := c.UserTable(table); ok {
		if decl, ok := info.Declared.Of(column); ok {
			return decl.Type
		}
	}
	return TypeBytes
}

// SetOf is the set of names.
func SetOf(names []string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// NormalizeSchema returns s in a fixed order and without the splits, which matter only at creation.
func NormalizeSchema(s *Schema) *Schema {
	out := &Schema{Tables: slices.Clone(s.Tables), Timing: normalizedTiming(s.Timing), DisableJournal: s.DisableJournal, Dropping: slices.Sorted(slices.Values(s.Dropping))}
	for i, t := range out.Tables {
		t.Schema = cmp.Or(t.Schema, s.Name)
		t.Observed, t.Weak, t.Splits = slices.Sorted(slices.Values(t.Observed)), slices.Sorted(slices.Values(t.Weak)), nil
		t.Indexes, t.Columns = slices.Clone(t.Indexes), normalizedColumns(t.Columns)
		slices.SortFunc(t.Indexes, func(a, b Index) int { return strings.Compare(a.Name, b.Name) })
		out.Tables[i] = t
	}
	slices.SortFunc(out.Tables, func(a, b Table) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// EncodeSchema returns the stored form of s; equal schemas have equal encodings. JSON keeps only
// valid UTF-8, so EncodeSchema quotes other column names as Go does.
func EncodeSchema(s *Schema) []byte {
	out := NormalizeSchema(s)
	eachColumn(out, func(name string) string {
		if !utf8.ValidString(name) || strings.HasPrefix(name, `"`) {
			return strconv.QuoteToASCII(name)
		}
		return name
	})
	b, err := json.Marshal(struct {
		Format int
		*Schema
	}{schemaFormat, out})
	if err != nil {
		panic(err) // strings and booleans always marshal
	}
	return b
}

// SameButForJournal reports whether want differs from the stored schema at most in whether there is
// a journal, in what is being dropped, and in Timing that it leaves open: that is the operator's
// business, and no program depends on it.
func SameButForJournal(stored, want *Schema) bool {
	c, d := *stored, *want
	d.DisableJournal, d.Dropping, c.Dropping = c.DisableJournal, nil, nil
	d.Timing = InheritTiming(d.Timing, c.Timing)
	return string(EncodeSchema(&c)) == string(EncodeSchema(&d))
}

// schemaFormat numbers the stored form of a schema and what it asks of clients. Programs with
// different numbers cannot share an instance (J9). What a program must not ignore raises it; then
// emulator_test/upgrade/oldest has to name that commit.
const schemaFormat = 7

// DecodeSchema reverses EncodeSchema. It accepts only what CreateSchema stores: a schema that named
// the engine's own tables, say, would open them to callers. ErrSchemaMismatch: a program of another
// schemaFormat has stored it.
func DecodeSchema(b []byte) (*Schema, error) {
	var stored struct{ Format int }
	if err := json.Unmarshal(b, &stored); err != nil {
		return nil, err
	}
	if stored.Format != schemaFormat {
		return nil, otherFormat(stored.Format)
	}
	s := &Schema{}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, err
	}
	var bad error
	eachColumn(s, func(name string) string {
		if !strings.HasPrefix(name, `"`) {
			return name
		}
		u, err := strconv.Unquote(name)
		bad = errors.Join(bad, err)
		return u
	})
	return s, errors.Join(bad, ValidateStored(s))
}

// otherFormat is the ErrSchemaMismatch for a stored schema of another format.
func otherFormat(format int) error {
	remedy := "upgrade this program"
	if format < schemaFormat {
		remedy = "create a new instance (percolator init, percolator schema apply); to bring the tables there, use percolator export of the program that stored this schema, and percolator import of this one"
	}
	return fmt.Errorf("percolator: %w: the stored schema has format %d, and this program reads format %d alone; %s", ErrSchemaMismatch, format, schemaFormat, remedy)
}

// eachColumn replaces every column name; s must own its slices.
func eachColumn(s *Schema, f func(string) string) {
	for i := range s.Tables {
		t := &s.Tables[i]
		for j := range t.Observed {
			t.Observed[j] = f(t.Observed[j])
		}
		for j := range t.Weak {
			t.Weak[j] = f(t.Weak[j])
		}
		for j := range t.Indexes {
			t.Indexes[j].Column = f(t.Indexes[j].Column)
		}
		for j := range t.Columns {
			t.Columns[j].Name = f(t.Columns[j].Name)
		}
	}
}

// UnknownTable is ErrSchemaMismatch for a table that the schema lacks.
func (c *Catalog) UnknownTable(table string) error {
	hint := text.DidYouMean(table, c.tableNames()...)
	if hint == "" {
		hint = "; percolator schema apply, or CreateSchema, adds it"
	}
	return unknownName{fmt.Errorf("percolator: table %q: %w: it is not in the schema%s", table, ErrSchemaMismatch, hint)}
}

// Unobserved is ErrSchemaMismatch for a column that the table does not observe.
func (t *TableInfo) Unobserved(column string) error {
	return fmt.Errorf("percolator: table %q: %w: column %q is not observed%s", t.Name, ErrSchemaMismatch, column, text.DidYouMean(column, t.Observed...))
}

func (c *Catalog) tableNames() (names []string) {
	for _, t := range c.Schema.Tables {
		names = append(names, t.Name)
	}
	return names
}

// UnknownIndex is ErrSchemaMismatch for an index that the table lacks.
func (t *TableInfo) UnknownIndex(index string) error {
	names := make([]string, len(t.Indexes))
	for i, ix := range t.Indexes {
		names[i] = ix.Name
	}
	return unknownName{fmt.Errorf("percolator: table %q: %w: it has no index %q%s", t.Name, ErrSchemaMismatch, index, text.DidYouMean(index, names...))}
}
