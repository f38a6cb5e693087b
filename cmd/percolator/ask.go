package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// ask returns an error unless whoever typed the command agrees to what cannot be undone.
func ask(ctx context.Context, cmd *cobra.Command, yes bool, format string, args ...any) error {
	if yes {
		return nil
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), format+" [y/N] ", args...)
	answered := make(chan string, 1)
	go func() { // a read of a terminal cannot be broken off
		line, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // no answer is no
		answered <- line
	}()
	line := ""
	select {
	case line = <-answered:
	case <-ctx.Done():
		_, _ = fmt.Fprintln(cmd.ErrOrStderr())
		return fmt.Errorf("not confirmed: %w", ctx.Err())
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer == "y" || answer == "yes" {
		return nil
	}
	_, _ = fmt.Fprintln(cmd.ErrOrStderr())
	return usagef("not confirmed; --yes does without the question")
}
