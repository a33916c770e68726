//! [`Axis`]: maps figures to positions on a drawing, and has ticks at round figures.

/// How figures are spread over an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By their logarithm.
    Log,
    /// Shares from 0 to 1, by the logarithm of their difference to 1: 90, 99 and 99.9 % lie at equal distances.
    Tail,
}

/// One axis of a plot.
#[derive(Clone, Debug)]
pub struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    until: f64,
}

impl Axis {
    /// From 0 to a round figure at or above `high`.
    pub fn linear(high: f64) -> Axis {
        let high = if high > 0.0 { high } else { 1.0 };
        let step = step(high);
        Axis { scale: Scale::Linear, low: 0.0, high: (high / step).ceil() * step, from: 0.0, until: 1.0 }
    }

    /// From 0 to `high` exactly: for time, which has no round end.
    pub fn exact(high: f64) -> Axis {
        Axis { scale: Scale::Linear, low: 0.0, high: if high > 0.0 { high } else { 1.0 }, from: 0.0, until: 1.0 }
    }

    /// From at or below `low` to at or above `high`, at 1, 2 or 5 times a power of ten. Both are above 0.
    pub fn log(low: f64, high: f64) -> Axis {
        let low = if low > 0.0 { low } else { 1.0 };
        let mut low = [5.0, 2.0, 1.0].into_iter().map(|of| of * power(low)).find(|at| *at <= low).unwrap_or(low);
        let mut high =
            [1.0, 2.0, 5.0, 10.0].into_iter().map(|of| of * power(high)).find(|at| *at >= high).unwrap_or(high);
        // An axis of less than a decade would exaggerate small differences.
        if high / low < 10.0 {
            (low, high) = (power(low), power(low) * if high > power(low) * 10.0 { 100.0 } else { 10.0 });
        }
        Axis { scale: Scale::Log, low, high, from: 0.0, until: 1.0 }
    }

    /// Shares, up to `nines` nines.
    pub fn tail(nines: u32) -> Axis {
        Axis { scale: Scale::Tail, low: 0.0, high: f64::from(nines), from: 0.0, until: 1.0 }
    }

    /// Places the axis between two positions on the drawing.
    pub fn between(self, from: f64, until: f64) -> Axis {
        Axis { from, until, ..self }
    }

    /// The position of a figure. Figures outside the axis lie at its end.
    pub fn at(&self, figure: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (figure - self.low) / (self.high - self.low),
            Scale::Log => (figure.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            Scale::Tail => -(1.0 - figure).max(1e-12).log10() / self.high,
        };
        self.from + share.clamp(0.0, 1.0) * (self.until - self.from)
    }

    /// The position where the axis begins.
    pub fn start(&self) -> f64 {
        self.from
    }

    /// The position where the axis ends.
    pub fn end(&self) -> f64 {
        self.until
    }

    /// The round figures on it.
    pub fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = step(self.high);
                (0..).map(|n| f64::from(n) * step).take_while(|at| *at <= self.high * 1.0001).collect()
            }
            Scale::Log => {
                let decades = (self.high / self.low).log10();
                let of: &[f64] = if decades <= 2.2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let powers = (0..=24).map(|n| power(self.low) * 10f64.powi(n));
                let ticks = powers.take_while(|at| *at <= self.high * 1.0001);
                let ticks = ticks.flat_map(|at| of.iter().map(move |of| at * of));
                ticks.filter(|at| (self.low * 0.999..=self.high * 1.001).contains(at)).collect()
            }
            Scale::Tail => {
                let nines = (1..=self.high as i32).map(|nines| 1.0 - 10f64.powi(-nines));
                [0.5].into_iter().chain(nines).collect()
            }
        }
    }
}

/// The greatest power of ten that is at most `figure`.
fn power(figure: f64) -> f64 {
    // Rounding must not move an exact power of ten below itself.
    10f64.powf((figure.max(1e-300).log10() + 1e-9).floor())
}

/// The distance of ticks: at most six fit below `high`.
fn step(high: f64) -> f64 {
    let rough = high / 5.0;
    let power = power(rough);
    [1.0, 2.0, 2.5, 5.0].into_iter().map(|of| of * power).find(|step| *step >= rough * 0.999).unwrap_or(power * 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_figures() {
        assert_eq!(Axis::linear(187e3).ticks(), [0.0, 50e3, 100e3, 150e3, 200e3]);
        assert_eq!(Axis::linear(0.0).ticks().len(), 6);
        assert_eq!(Axis::exact(9.0).ticks(), [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(Axis::log(1.5e3, 7e7).ticks(), [1e3, 1e4, 1e5, 1e6, 1e7, 1e8]);
        assert_eq!(Axis::log(30.0, 40.0).ticks(), [10.0, 20.0, 50.0, 100.0]);
        assert_eq!(Axis::tail(3).ticks(), [0.5, 0.9, 0.99, 0.999]);
    }

    #[test]
    fn each_nine_takes_as_much_room() {
        let axis = Axis::tail(4).between(100.0, 0.0);
        let close = |share: f64, place: f64| assert!((axis.at(share) - place).abs() < 0.01, "{share}");
        close(0.0, 100.0);
        close(0.9, 75.0);
        close(0.99, 50.0);
        close(0.9999, 0.0);
        close(1.0, 0.0);
    }

    #[test]
    fn a_logarithmic_axis_begins_at_its_end_for_what_is_not_above_zero() {
        let axis = Axis::log(1e3, 1e5).between(0.0, 100.0);
        assert_eq!((axis.at(0.0), axis.at(1e3), axis.at(1e5), axis.at(1e9)), (0.0, 0.0, 100.0, 100.0));
        assert!((axis.at(1e4) - 50.0).abs() < 1e-9);
    }
}
