package main

import (
	"embed"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/dev"
	"github.com/gopercolator/percolator/cmd/percolator/internal/look"
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
	cli.Describe(root, helpTexts, "help/", strings.NewReplacer(
		"{checks}", look.CheckList(),
		"{live checks}", look.LiveList(),
		"{password bytes}", strconv.Itoa(console.MinPasswordBytes),
		"{save limit}", dev.SaveLimit.String(),
		"{schema file}", strings.TrimSpace(schemaFileHelp),
	))
}
