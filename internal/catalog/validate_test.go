package catalog

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
)

// What is stored names its format. Programs of this format work side by side, so a change of these
// bytes needs another number.
func TestStoredSchema(t *testing.T) {
	t.Parallel()
	tables := []model.Table{{Name: "u"}, {Name: "t", Observed: []string{"\xff", "c"}, Weak: []string{"w"}, Indexes: []model.Index{{Name: "ix", Column: "c", Unique: true}}, Splits: []string{"m"}}}
	const stored = `{"Format":7,"Tables":[{"Name":"t","Observed":["c","\"\\xff\""],"Weak":["w"],"Indexes":[{"Name":"ix","Column":"c","Unique":true}]},{"Name":"u"}]`
	for _, c := range []struct {
		schema model.Schema
		want   string
	}{
		{model.Schema{Tables: tables}, stored + `}`},
		{model.Schema{Tables: tables, Timing: model.Timing{MetaMaxAge: time.Second}}, stored + `,"Timing":{"MetaMaxAge":1000000000}}`},
		{model.Schema{Tables: tables, DisableJournal: true}, stored + `,"DisableJournal":true}`},
		{model.Schema{Tables: tables, Dropping: []string{"x", "v"}}, stored + `,"Dropping":["v","x"]}`},
		{model.Schema{Name: "n", Tables: []model.Table{{Name: "t"}}}, `{"Format":7,"Tables":[{"Name":"t","Schema":"n"}]}`},
		{model.Schema{}, `{"Format":7,"Tables":null}`},
	} {
		if got := string(EncodeSchema(&c.schema)); got != c.want {
			t.Errorf("stored as\n%s, want\n%s", got, c.want)
		}
		wantRoundTrip(t, &c.schema)
	}
}

// wantRoundTrip requires that a schema survives the store.
func wantRoundTrip(t *testing.T, s *model.Schema) *model.Schema {
	t.Helper()
	b := EncodeSchema(s)
	got, err := DecodeSchema(b)
	if err != nil || !reflect.DeepEqual(got, NormalizeSchema(s)) {
		t.Fatalf("%s: decoded to %+v, %v", b, got, err)
	}
	if again := EncodeSchema(got); string(again) != string(b) {
		t.Errorf("%s is stored again as %s", b, again)
	}
	return got
}

// A schema of another format is refused, however its tables are stored, and the error says what to
// do.
func TestSchemaOfAnotherFormat(t *testing.T) {
	t.Parallel()
	for stored, remedy := range map[string]string{
		`{"Format":8,"Tables":[{"Name":"t"}]}`: "upgrade this program",
		`{"Format":8,"Tables":{"t":{}}}`:       "upgrade this program",
		`{"Format":6,"Tables":[{"Name":"t"}]}`: "create a new instance",
		`{"Format":2,"Tables":{"x":[]}}`:       "create a new instance",
		`{"Tables":[{"Name":"t"}]}`:            "create a new instance",
	} {
		if s, err := DecodeSchema([]byte(stored)); s != nil || !errors.Is(err, model.ErrSchemaMismatch) || !strings.Contains(err.Error(), remedy) {
			t.Errorf("%s: %+v, %v; want an error that says %q", stored, s, err, remedy)
		}
	}
}

// declaredSchemas are schemas with declared columns.
func declaredSchemas() []*model.Schema {
	columns := []model.ColumnSchema{{Name: "n", Type: model.TypeInt64}, {Name: "b", Type: model.TypeBytes}, {Name: "item:*", Type: model.TypeJSON, TTL: time.Hour}, {Name: "\xff*", Type: model.TypeTime}}
	return []*model.Schema{
		{Tables: []model.Table{{Name: "t", Columns: columns}}},
		{Tables: []model.Table{{Name: "t", Columns: columns}}, DisableJournal: true},
		{Tables: []model.Table{{Name: "t", TTL: 720 * time.Hour}, {Name: "u"}}},
	}
}

func TestStoredDeclarations(t *testing.T) {
	t.Parallel()
	for _, s := range declaredSchemas() {
		wantRoundTrip(t, s)
	}
	typed := func(typ model.Type) string {
		return string(EncodeSchema(&model.Schema{Tables: []model.Table{{Name: "t", Columns: []model.ColumnSchema{{Name: "c", Type: typ}}}}}))
	}
	if typed("") != typed(model.TypeBytes) {
		t.Errorf("no type and bytes are stored as different schemas: %s, %s", typed(""), typed(model.TypeBytes))
	}
}

// Whether observers hear of an expiry, the declaration says that has the TTL.
func TestNotifyExpired(t *testing.T) {
	t.Parallel()
	columns := []model.ColumnSchema{{Name: "a:*", TTL: time.Hour, NotifyExpired: true}, {Name: "a:quiet", TTL: time.Minute}, {Name: "b"}, {Name: "c", TTL: time.Hour}}
	for want, table := range map[string]model.Table{
		"a:1":   {Observed: []string{"a:1", "a:quiet", "b", "c"}, TTL: time.Hour, Columns: columns},
		"a:1 b": {Observed: []string{"a:1", "a:quiet", "b", "c"}, TTL: time.Hour, NotifyExpired: true, Columns: columns},
		"b":     {Observed: []string{"b"}, TTL: time.Hour, NotifyExpired: true},
	} {
		table.Name = "t"
		s := &model.Schema{Tables: []model.Table{table}}
		if err := Validate(s); err != nil {
			t.Error(err)
		}
		stored := New(wantRoundTrip(t, s)).Tables["t"]
		var hear []string
		for _, column := range []string{"a:1", "a:2", "a:quiet", "b", "c"} {
			if stored.NotifiesExpired(column) {
				hear = append(hear, column)
			}
		}
		if strings.Join(hear, " ") != want {
			t.Errorf("%+v: observers hear of %q, want %q", table, hear, want)
		}
	}
}

func TestInvalidDeclarations(t *testing.T) {
	t.Parallel()
	columns := func(names ...string) (list []model.ColumnSchema) {
		for _, n := range names {
			list = append(list, model.ColumnSchema{Name: n})
		}
		return list
	}
	for name, c := range map[string]struct {
		table model.Table
		says  string
	}{
		"no name":               {model.Table{Columns: columns("")}, "empty"},
		"a NUL":                 {model.Table{Columns: columns("a\x00")}, "0x00"},
		"twice":                 {model.Table{Columns: columns("a", "b", "a")}, "twice"},
		"a prefix twice":        {model.Table{Columns: columns("a*", "a*")}, "twice"},
		"an unknown type":       {model.Table{Columns: []model.ColumnSchema{{Name: "a", Type: "Int64"}}}, "ordered_int64"},
		"a short TTL":           {model.Table{Columns: []model.ColumnSchema{{Name: "a", TTL: time.Second - 1}}}, "1s"},
		"a negative TTL":        {model.Table{TTL: -time.Hour}, "1s"},
		"nothing that expires":  {model.Table{Columns: []model.ColumnSchema{{Name: "a", NotifyExpired: true}}, Observed: []string{"a"}, TTL: time.Hour}, "NotifyExpired"},
		"nobody who hears":      {model.Table{Columns: []model.ColumnSchema{{Name: "a", TTL: time.Hour, NotifyExpired: true}}}, "NotifyExpired"},
		"another TTL":           {model.Table{Columns: []model.ColumnSchema{{Name: "a", TTL: time.Hour}}, Observed: []string{"a"}, TTL: time.Hour, NotifyExpired: true}, "NotifyExpired"},
		"nobody in the table":   {model.Table{TTL: time.Hour, NotifyExpired: true}, "NotifyExpired"},
		"observed":              {model.Table{Columns: columns("contents"), Observed: []string{"content"}}, `did you mean "contents"`},
		"weak":                  {model.Table{Columns: columns("contents"), Weak: []string{"recount"}}, "not this one"},
		"an index":              {model.Table{Columns: columns("item:*"), Indexes: []model.Index{{Name: "ix", Column: "items"}}}, "not this one"},
		"more than the most of": {model.Table{Columns: make([]model.ColumnSchema, model.MaxDeclaredColumns+1)}, "1001"},
	} {
		c.table.Name = "t"
		err := Validate(&model.Schema{Tables: []model.Table{c.table}})
		if !errors.Is(err, model.ErrInvalidArgument) && !errors.Is(err, model.ErrTooLarge) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want an error that says %q", name, err, c.says)
		}
	}
	for _, s := range declaredSchemas() {
		if err := Validate(s); err != nil {
			t.Error(err)
		}
	}
	used := model.Table{Name: "t", Columns: columns("item:*", "w"), Observed: []string{"item:1"}, Weak: []string{"w"}, Indexes: []model.Index{{Name: "ix", Column: "item:"}}}
	if err := Validate(&model.Schema{Tables: []model.Table{used}}); err != nil {
		t.Error(err)
	}
}

// A column's own declaration goes before that of a prefix, and a long prefix before a short one.
func TestWhichDeclaration(t *testing.T) {
	t.Parallel()
	d := declarationsOf([]model.ColumnSchema{
		{Name: "item:*", Type: model.TypeJSON}, {Name: "item:n:*", Type: model.TypeInt64}, {Name: "item:n:1", Type: model.TypeBool}, {Name: "onhand", Type: model.TypeInt64}, {Name: "plain"}, {Name: "a*b", Type: model.TypeTime},
	})
	for column, want := range map[string]model.Type{
		"item:": model.TypeJSON, "item:x": model.TypeJSON, "item:n:": model.TypeInt64, "item:n:2": model.TypeInt64, "item:n:1": model.TypeBool, "onhand": model.TypeInt64, "plain": model.TypeBytes, "a*b": model.TypeTime,
		"item": "", "onhandy": "", "item:*": model.TypeJSON, "axb": "",
	} {
		if got, ok := d.Of(column); got.Type != want || ok != (want != "") {
			t.Errorf("%s is %q, %v; want %q", column, got.Type, ok, want)
		}
	}
	for column, want := range map[string]string{
		"on_hand": "onhand", "onhnad": "onhand", "Onhand": "onhand", "plane": "plain", "itme:x": "item:x", "quantity": "", "x": "", strings.Repeat("onhand", 100): "",
	} {
		err := d.Check(model.Cell{Table: "t", Row: "r", Column: column})
		if !errors.Is(err, model.ErrInvalidArgument) || strings.Contains(err.Error(), "did you mean") != (want != "") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q to be meant", column, err, want)
		}
	}
	var none *Declarations
	if got, ok := none.Of("anything"); got.Type != model.TypeBytes || !ok || none.checkPut(model.Cell{}, []byte("v")) != nil {
		t.Errorf("a table without declarations says %v, %v", got, ok)
	}
}

// What is refused may be of any length, and the error is not.
func TestErrorsOfLongNamesAreShort(t *testing.T) {
	t.Parallel()
	const most = 1 << 10
	long := strings.Repeat("x", 1<<20)
	for i, s := range []*model.Schema{
		{Name: long, Tables: []model.Table{{Name: "t"}}},
		{Name: "s", Tables: []model.Table{{Name: "t", Schema: long}}},
		{Tables: []model.Table{{Name: long}}},
		{Tables: []model.Table{{Name: "t", Observed: []string{long}}}},
		{Tables: []model.Table{{Name: "t", Columns: []model.ColumnSchema{{Name: long}}}}},
		{Tables: []model.Table{{Name: "t", Columns: []model.ColumnSchema{{Name: "c", Type: model.Type(long)}}}}},
		{Tables: []model.Table{{Name: "t", Indexes: []model.Index{{Name: long, Column: "c"}}}}},
		{Tables: []model.Table{{Name: "t", Indexes: []model.Index{{Name: "i", Column: long}}}}},
	} {
		if err := Validate(s); err == nil || len(err.Error()) > most {
			t.Errorf("schema %d: an error of %d bytes", i, len(fmt.Sprint(err)))
		}
	}
	c := New(&model.Schema{Tables: []model.Table{{Name: "t"}}})
	for _, err := range []error{c.UnknownTable(long), c.Tables["t"].Unobserved(long)} {
		if len(err.Error()) > most {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	}
}

// An index in place of a table is named with the command that reads it, under its own name and
// under that of its Bigtable table.
func TestIndexInPlaceOfATable(t *testing.T) {
	t.Parallel()
	c := New(&model.Schema{Tables: []model.Table{{Name: "t", Indexes: []model.Index{{Name: "by-x", Column: "x"}}}}})
	for _, name := range []string{"by-x", "t.by-x"} {
		if err := c.UnknownTable(name); !strings.Contains(err.Error(), "percolator scan t --index by-x") {
			t.Error(err)
		}
	}
}
