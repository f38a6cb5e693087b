package main

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Row keys and names of columns may hold any bytes. They are shown as they are where that is
// readable, and in Go's quotes otherwise; both forms are understood as arguments.

func shown(key string) string {
	unreadable := func(r rune) bool { return r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsPrint(r) }
	if key == "" || strings.HasPrefix(key, `"`) || strings.ContainsFunc(key, unreadable) {
		return strconv.Quote(key)
	}
	return key
}

func fromShown(arg string) (string, error) {
	if !strings.HasPrefix(arg, `"`) {
		return arg, nil
	}
	key, err := strconv.Unquote(arg)
	if err != nil {
		return "", usagef("%s is not a string in quotes", arg)
	}
	return key, nil
}
