// Package docs is the manual: the pages of this folder, for the server to show.
package docs

import "embed"

// Files are the pages and their pictures. requirements.md is for those who work on Skald.
//
//go:embed [^r]*.md redrives.md reliability.md images
var Files embed.FS
