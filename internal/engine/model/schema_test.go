package model

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Versions that know no journal cannot take part where there is one (J9): those that look at the
// format know 1, and those from before formats cannot decode the tables.
func TestFormerVersionsRefuseASchemaWithAJournal(t *testing.T) {
	t.Parallel()
	for _, disabled := range []bool{false, true} {
		b := EncodeSchema(&Schema{Tables: []Table{{Name: "t"}}, DisableJournal: disabled})
		var stored struct{ Format int }
		if err := json.Unmarshal(b, &stored); err != nil || stored.Format <= 1 != disabled {
			t.Errorf("%s: format %d, %v", b, stored.Format, err)
		}
		var before struct{ Tables []Table }
		if err := json.Unmarshal(b, &before); err == nil != disabled {
			t.Errorf("%s: a version from before formats gets %v, %v", b, before.Tables, err)
		}
		if s, err := DecodeSchema(b); err != nil || s.DisableJournal != disabled || len(s.Tables) != 1 {
			t.Errorf("%s: decoded to %+v, %v", b, s, err)
		}
	}
}

// A schema that declares no columns is stored as versions that know of none store it, byte for
// byte: programs of both work side by side.
func TestUndeclaredSchemasAreStoredAsBefore(t *testing.T) {
	t.Parallel()
	tables := []Table{{Name: "u"}, {Name: "t", Observed: []string{"\xff", "c"}, Weak: []string{"w"}, Indexes: []Index{{Name: "ix", Column: "c", Unique: true}}, Splits: []string{"m"}}}
	const stored = `[{"Name":"t","Observed":["c","\"\\xff\""],"Weak":["w"],"Indexes":[{"Name":"ix","Column":"c","Unique":true}]},{"Name":"u"}]`
	for _, c := range []struct {
		schema Schema
		want   string
	}{
		{Schema{Tables: tables}, `{"Format":2,"Tables":{"Journaled":` + stored + `}}`},
		{Schema{Tables: tables, Timing: Timing{MetaMaxAge: time.Second}}, `{"Format":2,"Tables":{"Journaled":` + stored + `},"Timing":{"MetaMaxAge":1000000000}}`},
		{Schema{Tables: tables, DisableJournal: true}, `{"Tables":` + stored + `}`},
		{Schema{}, `{"Format":2,"Tables":{"Journaled":null}}`},
	} {
		if got := string(EncodeSchema(&c.schema)); got != c.want {
			t.Errorf("stored as\n%s, want\n%s", got, c.want)
		}
	}
}

// declaredSchemas are schemas that versions without declared columns must refuse.
func declaredSchemas() []*Schema {
	columns := []ColumnSchema{{Name: "n", Type: TypeInt64}, {Name: "b", Type: TypeBytes}, {Name: "item:*", Type: TypeJSON, TTL: time.Hour}, {Name: "\xff*", Type: TypeTime}}
	return []*Schema{
		{Tables: []Table{{Name: "t", Columns: columns}}},
		{Tables: []Table{{Name: "t", Columns: columns}}, DisableJournal: true},
		{Tables: []Table{{Name: "t", TTL: 720 * time.Hour}, {Name: "u"}}},
	}
}

// Versions that know no declared columns would store what is not of the type, so the format keeps
// them out: it is later than 2, and not that of versions from before formats.
func TestFormerVersionsRefuseDeclaredColumns(t *testing.T) {
	t.Parallel()
	for _, s := range declaredSchemas() {
		b := EncodeSchema(s)
		var stored struct{ Format int }
		if err := json.Unmarshal(b, &stored); err != nil || stored.Format != 3 {
			t.Errorf("%s: format %d, %v", b, stored.Format, err)
		}
		var before struct{ Tables []Table }
		if err := json.Unmarshal(b, &before); err == nil {
			t.Errorf("%s: a version from before formats gets %v", b, before.Tables)
		}
		got, err := DecodeSchema(b)
		if want := NormalizeSchema(s); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: decoded to %+v, want %+v, %v", b, got, want, err)
		}
		again := EncodeSchema(got)
		if string(again) != string(b) {
			t.Errorf("%s is stored again as %s", b, again)
		}
	}
	typed := func(typ Type) string {
		return string(EncodeSchema(&Schema{Tables: []Table{{Name: "t", Columns: []ColumnSchema{{Name: "c", Type: typ}}}}}))
	}
	if typed("") != typed(TypeBytes) {
		t.Errorf("no type and bytes are stored as different schemas: %s, %s", typed(""), typed(TypeBytes))
	}
}

// A collector that does not know NotifyExpired would erase what observers are to hear of, so the
// format keeps its version out. Whether they hear, the declaration says that has the TTL.
func TestNotifyExpired(t *testing.T) {
	t.Parallel()
	columns := []ColumnSchema{{Name: "a:*", TTL: time.Hour, NotifyExpired: true}, {Name: "a:quiet", TTL: time.Minute}, {Name: "b"}, {Name: "c", TTL: time.Hour}}
	for want, table := range map[string]Table{
		"a:1":   {Observed: []string{"a:1", "a:quiet", "b", "c"}, TTL: time.Hour, Columns: columns},
		"a:1 b": {Observed: []string{"a:1", "a:quiet", "b", "c"}, TTL: time.Hour, NotifyExpired: true, Columns: columns},
		"b":     {Observed: []string{"b"}, TTL: time.Hour, NotifyExpired: true},
	} {
		table.Name = "t"
		s := &Schema{Tables: []Table{table}}
		if err := s.Validate(); err != nil {
			t.Error(err)
		}
		b := EncodeSchema(s)
		var stored struct{ Format int }
		if err := json.Unmarshal(b, &stored); err != nil || stored.Format != 5 {
			t.Errorf("%s: format %d, %v", b, stored.Format, err)
		}
		got, err := DecodeSchema(b)
		if err != nil || !reflect.DeepEqual(got, NormalizeSchema(s)) {
			t.Errorf("%s: decoded to %+v, %v", b, got, err)
		}
		var hear []string
		for _, column := range []string{"a:1", "a:2", "a:quiet", "b", "c"} {
			if NewCatalog(got).Tables["t"].NotifiesExpired(column) {
				hear = append(hear, column)
			}
		}
		if strings.Join(hear, " ") != want {
			t.Errorf("%s: observers hear of %q, want %q", b, hear, want)
		}
	}
}

func TestInvalidDeclarations(t *testing.T) {
	t.Parallel()
	columns := func(names ...string) (list []ColumnSchema) {
		for _, n := range names {
			list = append(list, ColumnSchema{Name: n})
		}
		return list
	}
	for name, c := range map[string]struct {
		table Table
		says  string
	}{
		"no name":               {Table{Columns: columns("")}, "empty"},
		"a NUL":                 {Table{Columns: columns("a\x00")}, "0x00"},
		"twice":                 {Table{Columns: columns("a", "b", "a")}, "twice"},
		"a prefix twice":        {Table{Columns: columns("a*", "a*")}, "twice"},
		"an unknown type":       {Table{Columns: []ColumnSchema{{Name: "a", Type: "Int64"}}}, "ordered_int64"},
		"a short TTL":           {Table{Columns: []ColumnSchema{{Name: "a", TTL: time.Second - 1}}}, "1s"},
		"a negative TTL":        {Table{TTL: -time.Hour}, "1s"},
		"nothing that expires":  {Table{Columns: []ColumnSchema{{Name: "a", NotifyExpired: true}}, Observed: []string{"a"}, TTL: time.Hour}, "NotifyExpired"},
		"nobody who hears":      {Table{Columns: []ColumnSchema{{Name: "a", TTL: time.Hour, NotifyExpired: true}}}, "NotifyExpired"},
		"another TTL":           {Table{Columns: []ColumnSchema{{Name: "a", TTL: time.Hour}}, Observed: []string{"a"}, TTL: time.Hour, NotifyExpired: true}, "NotifyExpired"},
		"nobody in the table":   {Table{TTL: time.Hour, NotifyExpired: true}, "NotifyExpired"},
		"observed":              {Table{Columns: columns("contents"), Observed: []string{"content"}}, `did you mean "contents"`},
		"weak":                  {Table{Columns: columns("contents"), Weak: []string{"recount"}}, "not this one"},
		"an index":              {Table{Columns: columns("item:*"), Indexes: []Index{{Name: "ix", Column: "items"}}}, "not this one"},
		"more than the most of": {Table{Columns: make([]ColumnSchema, MaxDeclaredColumns+1)}, "1001"},
	} {
		c.table.Name = "t"
		err := (&Schema{Tables: []Table{c.table}}).Validate()
		if !errors.Is(err, ErrInvalidArgument) && !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want an error that says %q", name, err, c.says)
		}
	}
	for _, s := range declaredSchemas() {
		if err := s.Validate(); err != nil {
			t.Error(err)
		}
	}
	used := Table{Name: "t", Columns: columns("item:*", "w"), Observed: []string{"item:1"}, Weak: []string{"w"}, Indexes: []Index{{Name: "ix", Column: "item:"}}}
	if err := (&Schema{Tables: []Table{used}}).Validate(); err != nil {
		t.Error(err)
	}
}

// A column's own declaration goes before that of a prefix, and a long prefix before a short one.
func TestWhichDeclaration(t *testing.T) {
	t.Parallel()
	d := declarationsOf([]ColumnSchema{
		{Name: "item:*", Type: TypeJSON}, {Name: "item:n:*", Type: TypeInt64}, {Name: "item:n:1", Type: TypeBool}, {Name: "onhand", Type: TypeInt64}, {Name: "plain"}, {Name: "a*b", Type: TypeTime},
	})
	for column, want := range map[string]Type{
		"item:": TypeJSON, "item:x": TypeJSON, "item:n:": TypeInt64, "item:n:2": TypeInt64, "item:n:1": TypeBool, "onhand": TypeInt64, "plain": TypeBytes, "a*b": TypeTime,
		"item": "", "onhandy": "", "item:*": TypeJSON, "axb": "",
	} {
		if got, ok := d.Of(column); got.Type != want || ok != (want != "") {
			t.Errorf("%s is %q, %v; want %q", column, got.Type, ok, want)
		}
	}
	for column, want := range map[string]string{
		"on_hand": "onhand", "onhnad": "onhand", "Onhand": "onhand", "plane": "plain", "itme:x": "item:x", "quantity": "", "x": "", strings.Repeat("onhand", 100): "",
	} {
		err := d.Check(Cell{"t", "r", column})
		if !errors.Is(err, ErrInvalidArgument) || strings.Contains(err.Error(), "did you mean") != (want != "") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q to be meant", column, err, want)
		}
	}
	var none *Declarations
	if got, ok := none.Of("anything"); got.Type != TypeBytes || !ok || none.checkPut(Cell{}, []byte("v")) != nil {
		t.Errorf("a table without declarations says %v, %v", got, ok)
	}
}
