//! [`Svg`]: a drawing as text. Colours are classes, so that the page's style sheet can change them for dark mode.
//!
//! No plotting library is used, because such libraries write colours as numbers and ignore the width of texts.

use std::fmt::Write;

/// Text made safe between tags and in attributes.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // XML cannot represent these characters, and no reader misses them.
            control if control.is_control() && control != '\n' && control != '\t' => safe.push(' '),
            other => safe.push(other),
        }
    }
    safe
}

/// Where a text stands from its point.
#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// It is centred there.
    Middle,
    /// It ends there.
    End,
}

/// A drawing.
pub struct Svg {
    width: f64,
    height: f64,
    label: String,
    body: String,
}

impl Svg {
    /// An empty drawing, in units of about a pixel; `label` describes it for readers who cannot see it.
    pub fn new(width: f64, height: f64, label: &str) -> Svg {
        Svg { width, height, label: escape(label), body: String::new() }
    }

    /// A text; it is escaped here.
    pub fn text(&mut self, (x, y): (f64, f64), class: &str, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let text = escape(text);
        let _ =
            write!(self.body, "<text x=\"{}\" y=\"{}\" class=\"{class}\"{anchor}>{text}</text>", short(x), short(y));
    }

    /// A straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(short);
        let _ = write!(self.body, "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" class=\"{class}\"/>");
    }

    /// A line through points, with a tooltip. Points that would coincide are left out.
    pub fn path(&mut self, points: &[(f64, f64)], class: &str, title: &str) {
        let mut data = String::new();
        let mut last: Option<(f64, f64)> = None;
        for (number, (x, y)) in points.iter().enumerate() {
            let near = last.is_some_and(|last| (last.0 - x).abs() < 0.5 && (last.1 - y).abs() < 0.5);
            if near && number + 1 < points.len() {
                continue;
            }
            let _ = write!(data, "{}{} {}", if last.is_none() { "M" } else { "L" }, short(*x), short(*y));
            last = Some((*x, *y));
        }
        let title = escape(title);
        let _ = write!(self.body, "<path d=\"{data}\" class=\"{class}\"><title>{title}</title></path>");
    }

    /// A rectangle, with a tooltip.
    pub fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), class: &str, title: &str) {
        let [x, y, width, height] = [x, y, width, height].map(short);
        let title = escape(title);
        let _ = write!(
            self.body,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"2\" class=\"{class}\">\
             <title>{title}</title></rect>"
        );
    }

    /// A dot, with a tooltip.
    pub fn dot(&mut self, (x, y): (f64, f64), class: &str, title: &str) {
        let (x, y, title) = (short(x), short(y), escape(title));
        let _ = write!(
            self.body,
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"3.2\" class=\"{class}\"><title>{title}</title></circle>"
        );
    }

    /// The drawing as an element of a page.
    pub fn finish(self) -> String {
        let Svg { width, height, label, body } = self;
        format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\">{body}</svg>\n")
    }
}

/// A coordinate to a tenth of a pixel, in the fewest characters.
fn short(coordinate: f64) -> String {
    let text = format!("{coordinate:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_a_tag_is_escaped() {
        assert_eq!(escape("<a href='x'>\"&\u{1}"), "&lt;a href=&#39;x&#39;&gt;&quot;&amp; ");
    }

    #[test]
    fn points_that_fall_together_are_drawn_once_but_the_last_is_there() {
        let mut svg = Svg::new(10.0, 10.0, "");
        svg.path(&[(0.0, 0.0), (0.1, 0.1), (5.0, 5.04), (5.1, 5.0)], "l0", "t");
        assert!(svg.body.contains("d=\"M0 0L5 5L5.1 5\""), "{}", svg.body);
    }
}
