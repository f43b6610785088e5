/* test_reports.c: text of strangers in HTML, Markdown and links; figures; the times of a job. */
#include "client/reports/document.h"
#include "client/reports/figure_svg.h"
#include "client/reports/html.h"
#include "client/reports/markdown.h"
#include "client/reports/markup.h"
#include "client/reports/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* What `write` writes of the text; the caller frees it. */
static char *written(void (*write)(const char *, FILE *), const char *text)
{
    char *output = NULL;
    size_t size;
    FILE *memory = open_memstream(&output, &size);

    write(text, memory);
    fclose(memory);
    return output;
}

static void assert_written(void (*write)(const char *, FILE *), const char *text,
                           const char *expected)
{
    AUTO_FREE char *output = written(write, text);

    assert_string_equal(output, expected);
}

static void test_html(void **state)
{
    (void)state;
    assert_written(markup_write_html, "<b>\"a\" & 'b'</b>",
                   "&lt;b&gt;&quot;a&quot; &amp; &#39;b&#39;&lt;/b&gt;");
    assert_written(markup_write_html, "漢字 \033[31m\x01\n\xc2\x85\xe2\x80\xae\xff",
                   "漢字 \\x1b[31m\\x01\\x0a\\x85\\xe2\\x80\\xae\\xff");
    assert_written(markup_write_html, "", "");
}

static void test_markdown(void **state)
{
    (void)state;
    assert_written(markup_write_markdown, "a|b*c_d`e~f", "a\\|b\\*c\\_d\\`e\\~f");
    assert_written(markup_write_markdown, "[x](javascript:y)", "\\[x\\](javascript:y)");
    assert_written(markup_write_markdown, "<img src=x> &amp; $x$ @ada #1",
                   "\\<img src=x\\> \\&amp; \\$x\\$ \\@ada \\#1");
    assert_written(markup_write_markdown, "https://e.org www.e.org", "https\\://e.org www\\.e.org");
    assert_written(markup_write_markdown, "a\n# b\\", "a\\\\x0a\\# b\\\\");
    assert_written(markup_write_markdown, "0.5 1e-3", "0.5 1e-3");
}

static void test_link(void **state)
{
    (void)state;
    assert_written(markup_write_link, "a-1_b.~", "a-1_b.~");
    assert_written(markup_write_link, "a b)(<é%", "a%20b%29%28%3C%C3%A9%25");
}

static struct json_object *parse(const char *text)
{
    struct json_object *object = NULL;

    assert_int_equal(json_parse(text, strlen(text), &object, NULL), 0);
    return object;
}

static char *svg_of(struct json_object *figure)
{
    char *output = NULL;
    size_t size;
    FILE *memory = open_memstream(&output, &size);

    figure_svg_write(figure, true, memory);
    fclose(memory);
    return output;
}

/* Huge, equal and missing values leave no number that SVG does not know. */
static void test_figures(void **state)
{
    static const char *const curves[] = {
        "{\"steps\":[0,10],\"means\":[1,2],\"minima\":[0,1],\"maxima\":[2,3]}",
        "{\"steps\":[5],\"means\":[7],\"minima\":[7],\"maxima\":[7]}",
        "{\"steps\":[0,1],\"means\":[-1e308,1e308],\"minima\":[-1.7e308,1e308],"
        "\"maxima\":[-1e308,1.7e308]}",
        "{\"steps\":[0,9000000000000000],\"means\":[0,0],\"minima\":[0,0],\"maxima\":[0,0]}",
        "{\"steps\":[],\"means\":[],\"minima\":[],\"maxima\":[]}",
        "{\"steps\":[1,2],\"means\":[5e-324,1e-323],\"minima\":[5e-324,5e-324],"
        "\"maxima\":[1e-323,1e-323]}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof curves / sizeof *curves; i++) {
        JSON_AUTO struct json_object *document = document_new("t"), *buckets = parse(curves[i]);
        struct json_object *figure = document_figure(document, "<loss>", "step");
        AUTO_FREE char *svg = NULL;

        document_curve(figure, "a<b", buckets);
        svg = svg_of(figure);
        assert_null(strstr(svg, "nan"));
        assert_null(strstr(svg, "inf"));
        assert_null(strstr(svg, "a<b"));
        assert_non_null(strstr(svg, "&lt;loss&gt;"));
        assert_true(strlen(svg) < 16384);
    }
}

static void test_document(void **state)
{
    static const char *const titles[] = {"Key", "#Value", "Empty"};
    JSON_AUTO struct json_object *document = document_new("<t>");
    struct json_object *row = document_row(document_table(document, titles, 3));
    AUTO_FREE char *html = NULL, *markdown = NULL;
    size_t size;
    FILE *memory;

    (void)state;
    document_cell(row, "a|%s", "<b>");
    document_cell(row, "%d", 5);
    document_cell(row, "%s", "");
    document_figure(document, "]loss", "step");
    document_trim(document);
    assert_int_equal(document_count_figures(document), 1);
    memory = open_memstream(&html, &size);
    html_write(document, memory);
    fclose(memory);
    assert_non_null(strstr(html, "<h1>&lt;t&gt;</h1>"));
    assert_non_null(strstr(html, "<tr><td>a|&lt;b&gt;</td><td class=\"number\">5</td></tr>"));
    assert_null(strstr(html, "Empty"));
    memory = open_memstream(&markdown, &size);
    markdown_write(document, "my report", memory);
    fclose(memory);
    assert_string_equal(markdown,
                        "# \\<t\\>\n\n| Key | Value |\n|---|---:|\n| a\\|\\<b\\> | 5 |\n\n"
                        "![\\]loss](my%20report.1.svg)\n\n");
}

static void test_times(void **state)
{
    JSON_AUTO struct json_object *whole =
        parse("{\"transitions\":[{\"time\":10,\"from\":null,\"to\":\"queued\"},"
              "{\"time\":15,\"from\":\"queued\",\"to\":\"starting\"},"
              "{\"time\":16,\"from\":\"starting\",\"to\":\"running\"},"
              "{\"time\":26,\"from\":\"running\",\"to\":\"paused\"},"
              "{\"time\":30,\"from\":\"paused\",\"to\":\"queued\"},"
              "{\"time\":29,\"from\":\"queued\",\"to\":\"running\"},"
              "{\"time\":40,\"from\":\"running\",\"to\":\"done\"}]}");
    JSON_AUTO struct json_object *cut =
        parse("{\"transitions\":[{\"time\":10,\"from\":\"running\",\"to\":\"queued\"}]}");
    struct report_times times = report_times_find(whole, 100);

    (void)state;
    assert_true(times.waited == 5 && times.ran == 22 && times.paused == 4 && times.complete);
    times = report_times_find(cut, 100);
    assert_true(times.waited == 90 && times.ran == 0 && !times.complete);
    times = report_times_find(NULL, 100);
    assert_true(times.waited == 0 && !times.complete);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_html),     cmocka_unit_test(test_markdown),
        cmocka_unit_test(test_link),     cmocka_unit_test(test_figures),
        cmocka_unit_test(test_document), cmocka_unit_test(test_times),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
