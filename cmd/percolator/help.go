package main

import (
	"embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/internal/probe"
	"github.com/gopercolator/percolator/percolator/console"
)

// helpTexts is what each command says of itself: a line, more of it, and examples.
//
//go:embed help/*.txt
var helpTexts embed.FS

// schemaFileHelp describes schema files.
//
//go:embed help/schema_file.txt
var schemaFileHelp string

// describeAll gives the commands below root their help. What a text leaves to the program stands in
// braces there.
func describeAll(root *cobra.Command) {
	describe(root, "help/", strings.NewReplacer(
		"{checks}", checkList(),
		"{live checks}", liveList(),
		"{password bytes}", strconv.Itoa(console.MinPasswordBytes),
		"{save limit}", saveLimit.String(),
		"{schema file}", strings.TrimSpace(schemaFileHelp),
	))
}

// describe does so for the commands below one whose texts begin with prefix.
func describe(parent *cobra.Command, prefix string, values *strings.Replacer) {
	for _, cmd := range parent.Commands() {
		describe(cmd, prefix+cmd.Name()+"_", values)
		text, err := helpTexts.ReadFile(prefix + cmd.Name() + ".txt")
		if err != nil { // a group of commands has none
			continue
		}
		short, rest, _ := strings.Cut(values.Replace(string(text)), "\n")
		long, examples, _ := strings.Cut(rest, "Examples:\n")
		cmd.Short, cmd.Long, cmd.Example = short, strings.TrimSpace(long), strings.TrimRight(examples, "\n")
	}
}

// checkList has a line for each check.
func checkList() string {
	var lines []string
	for _, c := range checks() {
		lines = append(lines, fmt.Sprintf("  %-12s  %s", c.name, c.about))
	}
	return strings.Join(lines, "\n")
}

// liveList has a line for each check of a live instance.
func liveList() string {
	var lines []string
	for _, l := range probe.Lines() {
		lines = append(lines, fmt.Sprintf("  %-18s  %s", l.Name, l.About))
	}
	return strings.Join(lines, "\n")
}
