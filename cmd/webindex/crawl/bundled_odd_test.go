package crawl_test

import (
	"fmt"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"
)

// frenchLight is served in ISO 8859-1 and, as a copy, in UTF-8. It states no charset itself.
const frenchLight = `<html lang="fr"><head><title>Le phare de Varn</title></head><body>
<h1>Le phare de Varn</h1>
<p>Bâti en 1841 après la perte de trois navires chargés de blé, le phare se dresse à l'entrée nord de la côte. L'hiver, le
granit fut traîné sur la glace; l'été, les maçons dormaient à la cave.
<p>Deux éclats brefs toutes les dix secondes, portée dix-neuf milles. La lentille est d'origine, à un prisme près.
<p><a href="/lights/varn-head.html">La notice anglaise</a>, <a href="sainte-olwen.html">le phare de Sainte-Olwen</a>
</body></html>
`

// foreign are pages that are not in UTF-8. The charset is stated in the header, unless header is
// "".
var foreign = []struct {
	url, header string
	encoding    encoding.Encoding
	text        string
}{
	{"http://lights.example/fr/phare-de-varn.html", "ISO-8859-1", charmap.ISO8859_1, frenchLight},
	{"http://lights.example/fr/sainte-olwen.html", "", charmap.Windows1252, `<html><head><meta http-equiv=content-type content="text/html; charset=windows-1252">
<title>Sainte-Olwen – la tour de l’abbaye</title></head><body>
<p>On entre chez le gardien par la nef. « La chorale répète le jeudi », dit l’écriteau, « parce que l’horloge se remonte le mercredi ». Visite : 2 €.
<p><a href="/lights/saint-olwen.html">“Saint Olwen” en anglais</a> — <a href="phare-de-varn.html">le phare de Varn</a>
</body></html>
`},
	{"http://galley.example/ja/watch-bread.html", "", japanese.ShiftJIS, `<html lang="ja"><head><meta charset="Shift_JIS"><title>当直のパン</title></head><body>
<h1>当直のパン</h1><p>灯台守が夜中の二時に食べるためのパンです。昼に生地をこね、六時まで一時間ごとにたたみ、冷たい部屋で寝かせます。
<p>小麦粉九百グラム、ライ麦粉百グラム、水六百八十グラム、塩二十グラム。<a href="../recipe/watch-bread">英語のレシピ</a>
<p><a href="http://lights.example/ja/todai.html">灯台について</a></body></html>
`},
	{"http://lights.example/ja/todai.html", "EUC-JP", japanese.EUCJP, `<html lang="ja"><head><title>ケルダー海岸の灯台</title></head><body>
<p>ケルダー海岸には四十八の灯台があります。一番高い灯台は<a href="/lights/amber-cliff.html">アンバー・クリフ</a>、一番古い灯台は<a href="/lights/old-amber.html">オールド・アンバー</a>です。
</body></html>
`},
	{"http://harbours.example/ru/greywater.html", "", charmap.KOI8R, `<html><head><meta http-equiv="Content-Type" content="text/html; charset=koi8-r"><title>Порт Грейуотер</title></head><body>
<p>Суда ждут у бара за два часа до полной воды и входят одно за другим. Единственный сухой док побережья и лучшая пекарня.
<p><a href="/greywater">По-английски</a></body></html>
`},
	{"http://harbours.example/is/storhavn.html", "", unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), `<html lang="is"><head><title>Stórhavn</title></head><body>
<p>Pósthús, verslun, skóli og hafnarskrifstofa í einu húsi með einni kabyssu. Póstur á mánudögum og fimmtudögum.
<p><a href="/storhavn">Á ensku</a></body></html>
`},
	{"http://galley.example/old/price-list.html", "", charmap.ISO8859_1, `<title>Price list of 1931</title><p>No charset is stated here: café au lait 4d, crème brûlée 9d, bread ½d a slice.
<a href="/">Galley</a>`},
}

// malformed are pages as people wrote them before anybody checked.
var malformed = []struct{ url, body string }{
	{"http://lights.example/old/logbook.html", `<html><head><title>A page from the log of Hob Island<title></title>
<body><h1>Log<h2>March</h3>
<p>3rd. Wind NE < 4, glass > 1020 & rising. Bees flew. <b>Two <i>colliers</b> northbound</i>, one without lights
<p>4th. Fog. <a href=/lights/hob-island.html>This light<a href="/essays/the-year-of-automation.html">what became of it</a></a></a>
<ul><li>oil 11 gallons<li>wick 2 yards<table><tr><td>flour<td>1 sack</ul>
<a href="/lights/hob-island.html"title=here>unspaced</a> <a HREF='/lights/sound-beacon.html' href="/nowhere.html">twice</a>
<img src=bee.gif alt="a bee"><p class=">5th. <a href="/lights/quarry-leading-lights.html">quoted badly</a>
<!-- the rest was never transcribed <a href="/lights/varn-head.html">not a link</a>
`},
	{"http://galley.example/old/ovens.htm", `<TITLE>Ovens of the coast</TITLE>
<BODY><FONT SIZE=+2>Ovens<P>
Brick: <A HREF=/recipe/glassblowers-bread>Glassblowers' bread
<P>Iron: <A HREF="/recipe/varn-flatbread">flat
bread</A>, <A HREF="  /recipe/stack-biscuit
  ">biscuit</A>
<TABLE><TD>heat<TD>&frac12; hour<TR>wood&nbspash</TABLE>
<A NAME=end><A HREF="#end">end</A> <A HREF="javascript:history.back()">back</A> <A HREF="ftp://galley.example/ovens.zip">all</A>
<script>document.write("<a href='/never.html'>never</a>");</script
><a href="/glossary/falling-oven.html">falling ovens</a></FONT></BODY></HTML></HTML>
`},
	{"http://harbours.example/notices/1931-07.html", "<html>\n<title>Notice to mariners, July 1931</title>\n<p>The buoy on \x00Haddock Bank has been fished up. " +
		"See <a href=\"/haddock%20hythe\">the hythe</a>, <a href=\"/haddock-hythe\">Haddock Hythe</a> and <a href=\"http://\">the chart</a>.\n" +
		"<p>Masters are reminded that <a href=\"/old/notices\">older notices</a> are <a href=\"/notices/loop-a\">kept</a> <a href=\"1931-06.html\">elsewhere</a> <a"},
	{"http://harbours.example/notices/empty.html", ""},
	{"http://lights.example/untitled.html", "Just a line about the wren of <a href=/lights/cold-harbour-light.html>Cold Harbour Light</a>, and no tags to speak of."},
}

// based are pages whose links are relative to something else than their own URL.
var based = []struct{ url, body string }{
	{"http://harbours.example/archive/1912/list.html", `<html><head><base href="http://harbours.example/"><title>Harbours in 1912</title></head><body>
<p>Tonnage of the year: <a href="coalhaven">Coalhaven</a> two million, <a href="kelderby">Kelderby</a> one and a half, <a href="greywater#dock">Greywater</a> one.
<p><a href="">front page</a>, <a href="archive/1912/list.html">this page</a></body></html>
`},
	{"http://galley.example/print/all.html", `<html><head><title>Recipes to print</title><base target="_top"><base href="../recipe/"></head><body>
<a href="watch-bread">Watch bread</a> <a href="amber-rolls">Amber rolls</a> <a href="./westermost-soda-bread?print">Soda bread</a>
<noscript><a href="lune-gingerbread">Gingerbread</a></noscript> <template><a href="template-only">none</a></template></body></html>
`},
}

func (s *site) addOddPages() error {
	for _, page := range foreign {
		body, err := page.encoding.NewEncoder().String(page.text)
		if err != nil {
			return fmt.Errorf("%s: %w", page.url, err)
		}
		s.add(page.url, page.header, []byte(body))
	}
	for _, page := range malformed {
		s.add(page.url, "", []byte(page.body))
	}
	for _, page := range based {
		s.addHTML(page.url, page.body)
	}
	s.addHTML("http://lights.example/links.html", oddLinks())
	return nil
}

// oddLinks is a page with many forms of links, so that the odd pages are linked to.
func oddLinks() string {
	var out strings.Builder
	out.WriteString("<p>Collected by readers. Some of this no longer exists.\n<ul>\n")
	for _, href := range []string{
		"fr/phare-de-varn.html", "./fr/./sainte-olwen.html", "ja/todai.html", "old/logbook.html", "untitled.html",
		"//galley.example/ja/watch-bread.html", "http://galley.example/old/price-list.html", "http://Galley.Example/old/ovens.htm#end",
		"http://harbours.example/ru/greywater.html", "http://harbours.example/is/storhavn.html",
		"http://harbours.example/archive/../archive/1912/list.html", "HTTP://harbours.example/notices/1931-07.html",
		"http://galley.example/print/all.html", "home", "light.php?id=1", "http://harbours.example/greywater.html",
		"http://galley.example/bread", "gone.html", "http://elsewhere.example/", "https://lights.example/", "links.html", "?page=2", "",
		"printable/varn-head", "http://harbours.example/notices/loop-b", "robots.txt", "chart.pdf", "tower.png", "tel:+10005550100",
	} {
		fmt.Fprintf(&out, "<li><a href=\"%s\">%s</a>\n", href, strings.TrimSuffix(strings.NewReplacer("http://", "", "/", " ", ".", " ", "-", " ").Replace(href), " html"))
	}
	return registerPage("Links", out.String()+"</ul>")
}
