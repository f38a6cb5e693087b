package formats

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gopercolator/percolator/internal/catalog/values"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/model"
)

func readCSV(t *Table, file, key string) ([]Row, error) {
	rows, err := t.ReadCSV(strings.NewReader(file), key)
	if err != nil {
		return nil, err
	}
	return all(rows)
}

// One row has one form, which quotes what would not come back, or what programs take for something
// else.
func TestCSVOfEachKind(t *testing.T) {
	t.Parallel()
	at, err := model.TypeTime.Parse("2025-03-01T12:00:00.000000005Z")
	fixture.Must(t, err)
	c, err := testTable().NewCSV(nil, "id")
	fixture.Must(t, err)
	got, err := c.Append(nil, Row{"r", []Cell{{"int", values.EncodeInt64(-5)}, {"float", values.EncodeFloat64(1e300)}, {"bool", []byte{1}}, {"time", at},
		{"doc", []byte("{\n \"a\": 1\n}")}, {"bytes", nil}, {"string", []byte("\"\r\n")}, {"\xff", []byte(" x")}}})
	fixture.Must(t, err)
	const want = `id,bytes,string,int,ordered,float,bool,time,doc,row,"""\xff"""` + "\n" +
		`r,"","""` + "\r\n" + `",-5,,1e+300,true,2025-03-01T12:00:00.000000005Z,"{` + "\n" + ` ""a"": 1` + "\n" + `}",," x"` + "\n"
	if string(got) != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// What other writers of RFC 4180 write is read as it was, and other readers read what is written:
// encoding/csv, which takes CRLF for LF.
func TestCSVRecordsOfAnotherImplementation(t *testing.T) {
	t.Parallel()
	text := rapid.StringMatching(`[a,"\r\n é\x{feff}]{0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(1, 4).Draw(t, "width")
		list := rapid.SliceOfN(rapid.SliceOfN(text, width, width), 1, 5).Draw(t, "records")
		list = slices.DeleteFunc(list, func(record []string) bool { return width == 1 && record[0] == "" })
		var theirs bytes.Buffer
		theirs.WriteString(byteOrderMark) // it does not quote one that begins the first field
		w := csv.NewWriter(&theirs)
		w.UseCRLF = rapid.Bool().Draw(t, "CRLF")
		var ours []byte
		for _, record := range list {
			if err := w.Write(record); err != nil {
				t.Fatal(err)
			}
			for i, of := range record {
				ours = appendField(ours, i, []byte(of))
			}
			ours = append(ours, '\n')
		}
		w.Flush()
		lf := func(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }
		written := list
		if w.UseCRLF { // then it writes every LF as CRLF, and leaves CR out
			crlf := strings.NewReplacer("\r", "", "\n", "\r\n")
			written = nil
			for _, record := range list {
				var other []string
				for _, of := range record {
					other = append(other, crlf.Replace(of))
				}
				written = append(written, other)
			}
		}
		for name, c := range map[string]struct {
			file []byte
			want [][]string
		}{"ours": {ours, list}, "theirs": {theirs.Bytes(), written}} {
			in := newRecords(bytes.NewReader(c.file))
			for _, want := range c.want {
				err := in.next(width)
				var got []string
				for _, f := range in.fields {
					got = append(got, string(in.text[f.from:f.to]))
				}
				if err != nil || !slices.Equal(got, want) {
					t.Fatalf("%s: %q, %v, want %q of %q", name, got, err, want, c.file)
				}
			}
			if err := in.next(width); err != io.EOF {
				t.Fatalf("%s: %v behind the last of %q", name, err, c.file)
			}
		}
		again, err := csv.NewReader(bytes.NewReader(ours)).ReadAll()
		if err != nil || len(again) != len(list) {
			t.Fatalf("%q: %d records, %v", ours, len(again), err)
		}
		for i := range list {
			for j := range list[i] {
				if again[i][j] != lf(list[i][j]) {
					t.Fatalf("%q, want %q", again[i], list[i])
				}
			}
		}
	})
}

// An unquoted empty field is no value, a quoted one the empty one, and empty lines count for
// nothing.
func TestCSVRows(t *testing.T) {
	t.Parallel()
	for file, want := range map[string][]Row{
		"row,string,bytes\nr,,\"\"\n":                      {{"r", []Cell{{"bytes", nil}}}},
		"\ufeff\"row\",string\r\n\r\nr,x\r\n\r\ns,\"y\"":   {{"r", []Cell{{"string", []byte("x")}}}, {"s", []Cell{{"string", []byte("y")}}}},
		"string,row\n\"a\r\nb\n\"\"\",\"r\ns\"\n":          {{"r\ns", []Cell{{"string", []byte("a\r\nb\n\"")}}}},
		"row,string\nr,\"a\rb\"\r\ns,c\r":                  {{"r", []Cell{{"string", []byte("a\rb")}}}, {"s", []Cell{{"string", []byte("c")}}}},
		"row,bool\na,true\nb,False\nc,TRUE\n":              {{"a", []Cell{{"bool", []byte{1}}}}, {"b", []Cell{{"bool", []byte{0}}}}, {"c", []Cell{{"bool", []byte{1}}}}},
		"row\nr\n":                                         {{"r", nil}},
		"row,float\na,inf\nb,-Infinity\nc,1e2\n":           {{"a", []Cell{{"float", mustParse("+Inf")}}}, {"b", []Cell{{"float", mustParse("-Inf")}}}, {"c", []Cell{{"float", mustParse("100")}}}},
		"row,\"n:1\",\"\"\"\\xff\"\"\",doc\nr,5,x,\" {}\"": {{"r", []Cell{{"n:1", values.EncodeInt64(5)}, {"\xff", []byte("x")}, {"doc", []byte(" {}")}}}},
		"row,string\n":                                     nil,
	} {
		if got, err := readCSV(testTable(), file, ""); err != nil || !slices.EqualFunc(got, want, sameRow) {
			t.Errorf("%q: %q, %v, want %q", file, got, err, want)
		}
	}
	if got, err := readCSV(tableOf(), "id,any\n007,1.50\n", "id"); err != nil || !slices.EqualFunc(got, []Row{{"007", []Cell{{"any", []byte("1.50")}}}}, sameRow) {
		t.Errorf("without declarations: %q, %v", got, err)
	}
}

func mustParse(float string) []byte {
	b, err := model.TypeFloat64.Parse(float)
	if err != nil {
		panic(err)
	}
	return b
}

// A header that does not fit is refused before any row, by all that is wrong with it.
func TestCSVHeaders(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"":                                  "it is empty, and has no header",
		"\n\n":                              "it is empty, and has no header",
		"int,string":                        `column "row" of the row key is missing (--key names another column)`,
		"row,int,int":                       `column "int" is there twice`,
		"row,int,row":                       `column "row" is there twice`,
		",row,int":                          "column 1 has no name (pandas writes an index so, unless index=False or index_label is given)",
		"row,size,int,rank":                 `the file has columns "size", "rank", and table "t" does not declare them: list each with its type under columns: of the table in the schema`,
		"row,\xff":                          "the name of column 2 is not UTF-8",
		`row,"""x"`:                         "column 2: invalid argument: the name of a column begins with a quote and is not quoted",
		"int,size,int":                      `column "int" is there twice; column "row" of the row key is missing (--key names another column); the file has column "size", and`,
		`row,"int`:                          "line 1: invalid argument: a field whose quotes begin on line 1 is never closed",
		"row,string\rr,x\r":                 "line 1: invalid argument: field 2 has a carriage return, which",
		"\xff\xfer\x00o\x00w\x00\n":         "the name of column 1 is not UTF-8",
		strings.Repeat("a,", maxCSVColumns): "it has 10001 columns, and the limit is 10000",
	} {
		_, err := testTable().ReadCSV(strings.NewReader(header), "")
		if !errors.Is(err, model.ErrInvalidArgument) || !strings.HasPrefix(err.Error(), "a CSV file whose columns do not fit: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", header, err, want)
		}
	}
}

// A row that cannot be read is named by its line, without what it holds, and the next one is read.
// A quote at a wrong place ends the reading.
func TestInvalidCSV(t *testing.T) {
	t.Parallel()
	for record, want := range map[string]string{
		"r,1":              "it has 2 fields, and the header 3",
		"r,1,x,secret":     "it has 4 fields, and the header 3",
		",1,x":             `column "row", which is the row key, is empty`,
		`"",1,x`:           `column "row", which is the row key, is empty`,
		"r,secret,x":       `column "int": give an int64, for example -12`,
		"r,1.0,x":          `column "int": give an int64, for example -12`,
		`r,"",x`:           `column "int": give an int64, for example -12`,
		"r,1,secret\xff":   `column "string" is not UTF-8`,
		"secret\xff,1,x":   `column "row" is not UTF-8`,
		"r,\"1\n\",secret": `column "int": give an int64, for example -12`,
	} {
		rows, err := testTable().ReadCSV(strings.NewReader("row,int,string\n\""+"a\nb\",,\n"+record+"\nlast,,\n"), "")
		fixture.Must(t, err)
		var got []string
		for row, err := range rows {
			if err != nil && (!errors.Is(err, model.ErrInvalidArgument) || !strings.HasPrefix(err.Error(), "line 4") || strings.Contains(err.Error(), "secret")) {
				t.Errorf("%q: %v", record, err)
			}
			if err != nil {
				row.Key = strings.TrimPrefix(strings.TrimPrefix(err.Error(), "line 4: invalid argument: "), "line 4, row r: invalid argument: ")
			}
			got = append(got, row.Key)
		}
		if !slices.Equal(got, []string{"a\nb", want, "last"}) {
			t.Errorf("%q: %q, want %s", record, got, want)
		}
	}
	for record, want := range map[string]string{
		`r,5" disk,x`:             "line 2: invalid argument: a quote in field 2 neither begins nor ends it",
		`r,"a" b,x`:               "line 2: invalid argument: a quote in field 2 neither begins nor ends it",
		`r,"he said \"hi\"",x`:    `(Spark does so with the option escape="\"")`,
		"r,\"a\nb\n\" c,x":        "line 4: invalid argument: a quote in field 2 neither begins nor ends it",
		"r,\"a\nb,x":              "line 2: invalid argument: a field whose quotes begin on line 2 is never closed",
		"r,a\nb,\"x\n\n":          "line 3: invalid argument: a field whose quotes begin on line 3 is never closed",
		"r,a\rs,b":                "line 2: invalid argument: field 2 has a carriage return, which",
		"r,\"a\"\rs,b":            "line 2: invalid argument: field 2 has a carriage return, which",
		"r,a,b,c,d\"":             "line 2: invalid argument: a quote in field 5 neither begins nor ends it",
		"r,x,\"" + hundred + "\n": "line 2: invalid argument: the record is longer than 0 MiB; quotes begin on line 2",
	} {
		in := newRecords(strings.NewReader("row,string\n" + record + "\nlast,\n"))
		in.limit = 50
		fixture.Must(t, in.next(2))
		var err error
		for err == nil {
			err = in.next(3)
		}
		if !errors.Is(err, model.ErrInvalidArgument) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", record, err, want)
		}
	}
	rows, err := testTable().ReadCSV(strings.NewReader("row,string\na,\nb,\"c\nd,e\n"), "")
	fixture.Must(t, err)
	var got []string
	last := error(nil)
	for row, err := range rows {
		got, last = append(got, row.Key), err
	}
	if len(got) != 3 || last == nil || errors.Is(last, model.ErrInvalidArgument) {
		t.Errorf("whoever passes over a quote that is never closed gets %q, %v", got, last)
	}
}

var hundred = strings.Repeat("0123456789", 10)

// Fields beyond those of the header take no memory, and a reader's own error comes as it is.
func TestCSVReadsWithinLimits(t *testing.T) {
	t.Parallel()
	in := newRecords(io.MultiReader(strings.NewReader("a,b"), strings.NewReader(strings.Repeat(",\"x\ny\"", 1000)), strings.NewReader("\nlast\n")))
	fixture.Must(t, in.next(2))
	if in.count != 1002 || len(in.fields) != 2 || len(in.text) != 2 {
		t.Errorf("%d fields, of which %d are kept with %d bytes", in.count, len(in.fields), len(in.text))
	}
	if err := in.next(2); err != nil || in.line != 1002 {
		t.Errorf("line %d, %v", in.line, err)
	}
	_, err := testTable().ReadCSV(io.MultiReader(strings.NewReader("row\n"), failing{}), "")
	fixture.Must(t, err)
	rows, err := testTable().ReadCSV(io.MultiReader(strings.NewReader("row\na"), failing{}), "")
	fixture.Must(t, err)
	if got, err := all(rows); len(got) != 0 || !errors.Is(err, errFailing) {
		t.Errorf("%q, %v", got, err)
	}
}

var errFailing = errors.New("the disk fails")

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errFailing }

// What a file of CSV does not hold is refused by row and column.
func TestRowsThatCSVDoesNotHold(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		key string
		row Row
	}{
		`row r: column "other" is none that the schema declares by its name`:           {"id", Row{"r", []Cell{{"other", []byte("x")}}}},
		`row r: column "n:1" is none that the schema declares by its name`:             {"id", Row{"r", []Cell{{"n:1", values.EncodeInt64(1)}}}},
		`row r: column "int": the value is no int64 that CSV can hold`:                 {"id", Row{"r", []Cell{{"int", []byte("12")}}}},
		`row r: column "bytes": the value is no bytes that CSV can hold (not UTF-8)`:   {"id", Row{"r", []Cell{{"bytes", []byte{0xff}}}}},
		`row "r\xff": its key is not UTF-8`:                                            {"id", Row{"r\xff", []Cell{{"bytes", nil}}}},
		`row r: column "row", by whose name the file has the row key, holds`:           {"row", Row{"r", []Cell{{"row", []byte("r")}}}},
		`row r: column "string", by whose name the file has the row key, holds`:        {"string", Row{"r", []Cell{{"string", []byte("s")}}}},
		`row r: column "string", by whose name the file has the row key, has no value`: {"string", Row{"r", []Cell{{"bytes", []byte("r")}}}},
		`row r: column "int", by whose name the file has the row key, holds something`: {"int", Row{"r", []Cell{{"int", values.EncodeInt64(1)}}}},
	} {
		form, err := testTable().NewCSV(nil, c.key)
		fixture.Must(t, err)
		if b, err := form.Append(nil, c.row); !errors.Is(err, model.ErrInvalidArgument) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q, %v, want %s", b, err, want)
		}
	}
	for _, table := range []*Table{tableOf(), tableOf(model.ColumnSchema{Name: "n:*"})} {
		if _, err := table.NewCSV(nil, "row"); !errors.Is(err, model.ErrInvalidArgument) || !strings.Contains(err.Error(), "name the columns, or declare them") {
			t.Error(err)
		}
		form, err := table.NewCSV([]string{"n:2", "n:1", "n:2"}, "row")
		fixture.Must(t, err)
		if b, err := form.Append(nil, Row{"r", []Cell{{"n:1", []byte("x")}}}); err != nil || string(b) != "row,n:2,n:1\nr,,x\n" {
			t.Errorf("%q, %v", b, err)
		}
	}
	// The key's own column comes back with the key.
	form, err := testTable().NewCSV(nil, "int")
	fixture.Must(t, err)
	row := Row{"-07", []Cell{{"int", values.EncodeInt64(-7)}}}
	b, err := form.Append(nil, row)
	fixture.Must(t, err)
	if got, err := readCSV(testTable(), string(b), "int"); err != nil || len(got) != 1 || !sameRow(got[0], row) {
		t.Errorf("%q is %q, %v", b, got, err)
	}
}

func FuzzReadCSV(f *testing.F) {
	f.Add([]byte("row,int,string\nr,1,\"a\"\"\nb\"\n"))
	table := testTable()
	f.Fuzz(func(t *testing.T, file []byte) {
		rows, err := table.ReadCSV(bytes.NewReader(file), "")
		if err != nil {
			return
		}
		form, err := table.NewCSV([]string{"bytes", "string", "int", "ordered", "float", "bool", "time", "doc", "n:1", "\xff"}, "row")
		fixture.Must(t, err)
		for row, err := range rows {
			if err != nil {
				continue
			}
			b, err := form.Append(nil, row)
			if err != nil {
				if strings.Contains(fmt.Sprint(err), "is none that the schema declares") { // n:2
					continue
				}
				t.Fatalf("%q: %v", row, err)
			}
			if back, err := readCSV(table, string(b), ""); err != nil || len(back) != 1 || !sameRow(row, back[0]) {
				t.Errorf("%q became %q, %v", row, back, err)
			}
		}
	})
}
