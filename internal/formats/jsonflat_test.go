package formats

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/catalog/values"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/model"
)

func TestFlatJSONOfEachKind(t *testing.T) {
	t.Parallel()
	row := Row{"r\xff", []Cell{{"int", values.EncodeInt64(math.MinInt64)}, {"float", mustParse("+Inf")}, {"bool", []byte{1}}, {"doc", []byte("null")}, {"doc2", nil},
		{"bytes", []byte{0xff}}, {"string", []byte("<null>\n")}, {"\xff", []byte("x")}, {"row", []byte("y")}}}
	line, mistyped, err := testTable().AppendFlat(nil, "id", row)
	const want = `{"id":{"base64":"cv8="},"int":-9223372036854775808,"float":"Infinity","bool":true,"doc":{"base64":"bnVsbA=="},"doc2":"",` +
		`"bytes":{"base64":"/w=="},"string":"<null>\n","\"\\xff\"":"x","row":"y"}` + "\n"
	if string(line) != want || mistyped != 0 || err != nil {
		t.Errorf("%s%d are mistyped, %v, want\n%s", line, mistyped, err, want)
	}
	row.Cells[4].Column = "n:1"
	if line, mistyped, err = testTable().AppendFlat(nil, "id", row); mistyped != 1 || err != nil {
		t.Errorf("%s%d are mistyped, %v", line, mistyped, err)
	}
	if got, err := testTable().ParseFlat(line, "id"); err != nil || !sameRow(got, row) {
		t.Errorf("%q, %v", got, err)
	}
}

// The key may have any name. One that the table declares is a column as well, as in Parquet.
func TestFlatJSONKeys(t *testing.T) {
	t.Parallel()
	seven, x := Cell{"int", values.EncodeInt64(7)}, Cell{"string", []byte("x")}
	for _, c := range []struct {
		key, line string
		want      Row
	}{
		{"id", `{"id":"a","int":7,"string":null}`, Row{"a", []Cell{seven}}},
		{"id", `{"int":"7","id":-12}`, Row{"-12", []Cell{seven}}},
		{"id", `{"id":18446744073709551616}`, Row{"18446744073709551616", nil}},
		{"id", `{"id":{"base64":"/w=="}}`, Row{"\xff", nil}},
		{"row", `{"row":"a","string":"x"}`, Row{"a", []Cell{x}}},
		{"string", `{"string":"x","int":7}`, Row{"x", []Cell{x, seven}}},
		{"int", `{"int":7}`, Row{"7", []Cell{seven}}},
		{"\xff", `{"\"\\xff\"":"a"}`, Row{"a", []Cell{{"\xff", []byte("a")}}}},
	} {
		if got, err := testTable().ParseFlat([]byte(c.line), c.key); err != nil || !sameRow(got, c.want) {
			t.Errorf("%s: %q, %v, want %q", c.line, got, err, c.want)
		}
	}
	if got, err := tableOf().ParseFlat([]byte(`{"id":"a","any":"1","none":null}`), "id"); err != nil || !sameRow(got, Row{"a", []Cell{{"any", []byte("1")}}}) {
		t.Errorf("without declarations: %q, %v", got, err)
	}
	for key, r := range map[string]Row{
		"string": {"r", []Cell{seven}},
		"bool":   {"true", []Cell{{"bool", []byte{1}}}}, // a string is no bool
		"row":    {"r", []Cell{{"row", []byte("r")}}},
		"int":    {"8", []Cell{seven}},
	} {
		if line, _, err := testTable().AppendFlat(nil, key, r); !errors.Is(err, model.ErrInvalidArgument) || len(line) != 0 || !strings.Contains(err.Error(), ": choose another name for the key") {
			t.Errorf("%s, %v", line, err)
		}
	}
	line, _, err := testTable().AppendFlat(nil, "int", Row{"7", []Cell{x, seven}})
	fixture.Must(t, err)
	if string(line) != `{"int":"7","string":"x"}`+"\n" {
		t.Errorf("%s", line)
	}
}

// What cannot be read is refused with the line and what to do, and without what it holds.
func TestInvalidFlatJSON(t *testing.T) {
	t.Parallel()
	declared, open := testTable(), tableOf()
	for _, c := range []struct {
		table      *Table
		line, want string
	}{
		{declared, `{"int":1}`, `field "id", which is the row key, is missing`},
		{declared, `{}`, `field "id", which is the row key, is missing`},
		{declared, `{"id":null,"int":1}`, `field "id", which is the row key, is null`},
		{declared, `{"id":""}`, `field "id", which is the row key, is empty`},
		{declared, `{"id":{"base64":""}}`, `field "id", which is the row key, is empty`},
		{declared, `{"id":1.0}`, `field "id", which is the row key, is none of a string, an integer and base64`},
		{declared, `{"id":1e3}`, `field "id", which is the row key, is none of a string, an integer and base64`},
		{declared, `{"id":true}`, `field "id", which is the row key, is none of a string, an integer and base64`},
		{declared, `{"id":"a","id":"b"}`, `field "id" stands there twice`},
		{declared, `{"id":"a","int":1,"int":1}`, `field "int" stands there twice`},
		{declared, `{"id":"a","string":null,"string":null}`, `field "string" stands there twice`},
		{declared, `{"id":"a","other":"secret"}`, `field "other": table "t" does not declare it: list it with its type under columns: of the table in the schema`},
		{declared, `{"id":"a","other":null}`, `field "other": table "t" does not declare it`},
		{declared, `{"id":"a","bytes":7}`, `column "bytes": want a string, or {"base64": …}: list it with its type under columns: of the table in the schema, a number as int64 or float64`},
		{declared, `{"id":"a","bytes":true}`, `true and false as bool`},
		{declared, `{"id":"a","bytes":{"secret":1}}`, `an object as json`},
		{declared, `{"id":"a","string":7}`, `column "string": want a string, or {"base64": …}`},
		{declared, `{"id":"a","int":"secret"}`, `column "int": want a number without fraction, or {"base64": …}`},
		{declared, `{"id":"a","int":5.0}`, `column "int": want a number without fraction, or {"base64": …}`},
		{declared, `{"id":"a","float":"0.5"}`, `column "float": want a number, or`},
		{declared, `{"id":"a","bool":"true"}`, `column "bool": want true or false, or`},
		{declared, `{"id":"a","time":1704164645123}`, `column "time": want a time such as "2026-01-31T15:04:05.25Z", or`},
		{declared, `{"id":"a"} {`, `something follows the row`},
		{declared, `{"id":"a"`, `the line ends in the middle of a JSON object`},
		{declared, `["a"]`, `byte 0 is not the beginning of an object`},
		{declared, `{"row":"a","columns":{"int":1}}`, `it is of the form {"row": …, "columns": {…}}, which is read without --key`},
		{open, `{"row":"a","columns":{"any":"x"}}`, `it is of the form {"row": …, "columns": {…}}, which is read without --key`},
		{open, `{"id":"a","any":7}`, `table "t" declares no columns: list every column with its type under columns: of the table in the schema, a number as int64 or float64`},
		{open, `{"id":"a","any":["secret"]}`, `under columns: of the table in the schema, an array as json`},
	} {
		_, err := all(c.table.ReadJSON(strings.NewReader("\n"+c.line+"\n"), "id"))
		if !errors.Is(err, model.ErrInvalidArgument) || !strings.HasPrefix(err.Error(), "line 2") || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", c.line, err, c.want)
		}
	}
	const want = `the name "id" is neither "row" nor "columns" (--key names the row key's, and then all others are columns)`
	if _, err := declared.ParseJSON([]byte(`{"id":"a","int":1}`)); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

func FuzzParseFlat(f *testing.F) {
	f.Add([]byte(`{"id":"r","int":"1","doc":{},"bytes":{"base64":""},"time":"2024-01-02 03:04:05 UTC"}`))
	table := testTable()
	f.Fuzz(func(t *testing.T, line []byte) {
		row, err := table.ParseFlat(line, "id")
		if err != nil {
			return
		}
		again, _, err := table.AppendFlat(nil, "id", row)
		fixture.Must(t, err)
		if back, err := table.ParseFlat(again, "id"); err != nil || !sameRow(row, back) {
			t.Errorf("%q became %q, %v", row, back, err)
		}
	})
}
