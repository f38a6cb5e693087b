package main

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/gopercolator/percolator/percolator"
)

// maxScriptReads bounds the bytes of values that a script keeps to be printed.
const maxScriptReads = 64 << 20

const scriptHelp = `  get TABLE ROW [COLUMN…]                      read, as percolator get
  get-for-update TABLE ROW COLUMN              and conflict with other changes to it meanwhile
  scan [FLAGS] TABLE [COLUMN…]                 --prefix, --from, --to, --index, --limit, --reverse
  require [FORM] TABLE ROW COLUMN = VALUE      end unless the cell has this value …
  require TABLE ROW COLUMN absent|present      … or has none, or any
  set [FORM] TABLE ROW COLUMN VALUE            FORM: --hex or --raw, as of percolator set
  insert [FORM] TABLE ROW COLUMN VALUE         only if the cell has no value
  del TABLE ROW COLUMN
  notify TABLE ROW COLUMN                      run the observers of a weak column`

// statement is one line of a script.
type statement struct {
	line  int
	verb  string
	cell  percolator.Cell // what the verb is about; of get and scan only the table and the row
	args  []string        // the columns of get and scan
	given givenValue      // of set, insert and require =
	value []byte          // given, encoded
	must  string          // of require: "=", "absent" or "present"
	scan  scanFlags
}

// writes tells whether it needs a transaction.
func (s statement) writes() bool {
	return slices.Contains([]string{"set", "insert", "del", "notify", "get-for-update"}, s.verb)
}

func (s statement) fail(err error) error { return fmt.Errorf("line %d: %s: %w", s.line, s.verb, err) }

// parseScript takes the statements of a script apart. What is wrong with it is found before
// anything is read or written.
func parseScript(text []byte) (script []statement, err error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxScriptBytes+1)
	for n := 1; lines.Scan(); n++ {
		words, err := splitLine(lines.Text())
		if err != nil {
			return nil, usagef("line %d: %w", n, err)
		}
		if len(words) == 0 {
			continue
		}
		s, err := parseStatement(words)
		if err != nil {
			return nil, usagef("line %d: %w", n, err)
		}
		s.line = n
		script = append(script, s)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the script: %w", err)
	}
	return script, nil
}

// splitLine takes a line apart as a POSIX shell would, without doing anything that a shell does.
// What a shell would do something for must be quoted.
func splitLine(line string) (words []string, err error) {
	if !utf8.ValidString(line) {
		return nil, fmt.Errorf("not UTF-8; --hex takes other values, and names are understood as percolator shows them")
	}
	var word strings.Builder
	begun := false // a word, which may be empty
	var quote rune // 0: none
	runes := []rune(line)
	for i := 0; i < len(runes); i++ {
		r := runes[i]
		switch {
		case r == '\\' && quote != '\'':
			if i++; i == len(runes) {
				return nil, fmt.Errorf("a backslash at the end of the line")
			}
			if quote == '"' && !strings.ContainsRune("\"\\$`", runes[i]) {
				word.WriteRune('\\') // as a shell has it: it stands for itself
			}
			word.WriteRune(runes[i])
			begun = true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, begun = r, true
		case r == ' ' || r == '\t' || r == '\r':
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		case r == '#' && !begun:
			return words, nil
		case strings.ContainsRune(";&|<>()`", r):
			return nil, fmt.Errorf("%q is not quoted", r)
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote is not closed")
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}

func parseStatement(words []string) (s statement, err error) {
	s.verb = words[0]
	flags := pflag.NewFlagSet(s.verb, pflag.ContinueOnError)
	flags.SetInterspersed(false) // a value may begin with a hyphen
	flags.Usage = func() {}
	var form valueFlags
	switch s.verb {
	case "set", "insert", "require":
		form.define(flags)
	case "scan":
		s.scan.define(flags)
	}
	if err := flags.Parse(words[1:]); err != nil {
		return s, fmt.Errorf("%s: %w", s.verb, err)
	}
	args := flags.Args()
	number, known := operands[s.verb]
	switch {
	case !known:
		return s, fmt.Errorf("unknown statement %q; there are:\n%s", s.verb, scriptHelp)
	case len(args) < number[0] || len(args) > number[1]:
		return s, fmt.Errorf("%s takes other arguments; the statements are:\n%s", s.verb, scriptHelp)
	}
	return s, s.take(args, form)
}

// maxOperands bounds the columns of get and scan.
const maxOperands = 1000

// operands is how many arguments a verb takes, at least and at most.
var operands = map[string][2]int{
	"get": {2, maxOperands}, "scan": {1, maxOperands}, "get-for-update": {3, 3}, "del": {3, 3}, "notify": {3, 3},
	"set": {4, 4}, "insert": {4, 4}, "require": {4, 5},
}

func (s *statement) take(args []string, form valueFlags) (err error) {
	switch s.verb {
	case "set", "insert":
		s.given, err = form.take([]byte(args[3]))
		args = args[:3]
	case "require":
		if s.must = args[3]; s.must == "=" && len(args) == 5 {
			s.given, err = form.take([]byte(args[4]))
		} else if s.must == "=" || len(args) == 5 || s.must != "absent" && s.must != "present" {
			return fmt.Errorf("require ends with = VALUE, absent or present")
		}
		args = args[:3]
	case "scan":
		_, err = s.scan.rows()
	}
	if err != nil {
		return err
	}
	named, err := names(args)
	if err != nil {
		return err
	}
	s.cell.Table = named[0]
	switch s.verb {
	case "scan":
		s.args = named[1:]
		if s.scan.index != "" && len(s.args) > 0 {
			return fmt.Errorf("--index shows the indexed column and no others")
		}
	case "get":
		s.cell.Row, s.args = named[1], named[2:]
	default:
		s.cell.Row, s.cell.Column = named[1], named[2]
	}
	return nil
}

// encode encodes the values of a script for their columns, before anything of it is run.
func encode(script []statement, types columnTypes) error {
	for i := range script {
		s := &script[i]
		var err error
		if s.value, err = s.given.of(types, s.cell); err != nil {
			return s.fail(err)
		}
	}
	return nil
}
