package main

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// ask returns an error unless whoever typed the command agrees to what cannot be undone.
func ask(cmd *cobra.Command, yes bool, format string, args ...any) error {
	if yes {
		return nil
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), format+" [y/N] ", args...)
	line, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // no answer is no
	if answer := strings.ToLower(strings.TrimSpace(line)); answer == "y" || answer == "yes" {
		return nil
	}
	_, _ = fmt.Fprintln(cmd.ErrOrStderr())
	return usagef("not confirmed; --yes does without the question")
}
